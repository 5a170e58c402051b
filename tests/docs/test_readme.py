"""The README's study from Python runs as it is printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.long
def test_the_study_of_the_readme_runs(tmp_path, monkeypatch):
    """Half as long."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    example = next(block for block in blocks if "mdfl_jax.run(" in block)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(example.replace('"rounds": 40', '"rounds": 20'), names)
    assert names["results"].array("accuracy", "dcm").shape == (3, 2, 20)
    assert (tmp_path / "runs" / "two" / "summary.json").is_file()
