"""report.html and the launcher: what the page says, and how a user's mistake is told."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import page
from mdfl_jax.report.read import read_workdir
from tests.report.made_report import edit

Maker = Callable[..., Path]


def test_page_tells_the_remarks_the_verdict_the_setting_the_captions_and_the_making(reported: Path) -> None:
    run = dataclasses.replace(read_workdir(reported), remarks=("Round 9 of 40 <so far>.",))
    text = page.render(run)
    assert "<h1>Moves &amp; &lt;b&gt;&#34;mixes&#34;&lt;/b&gt;</h1>" in text
    said = (
        "<p>Round 9 of 40 &lt;so far&gt;.</p>",
        r'<p class="verdict">dcm (is best|has the highest mean): [0-9.]+ ± [0-9.]+ % final test acc',
        "8 clients, 2 of them mobile, train cnn on mnist with dpsgd. .*Mobility is static, random movement, dam or dcm"
        " on a grid of 10 x 10",
        "mean over 3 seeds",
        "The labels are divided very unequally",
        "<code>python -m launch.sweep --config=configs/synthetic.py</code>",
        "0123abc",
        "jax 0.10.2",
        "<dd>2 x TFRT_CPU</dd>",
        "12.8 s to compile",
        "<dd>0 to 2</dd>",  # the seeds
    )
    assert re.search("(?s:.*)".join(said), text)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without(key: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))


def of_schema_1(path: Path) -> None:
    edit(path.parent, path.stem, schema=1)


def with_flat_places(path: Path) -> None:
    np.savez(path, **{"0/position": np.zeros((2, 3))})


MISTAKES = [
    *(("config.json", harm, "") for harm in (Path.unlink, truncate)),
    ("config.json", of_schema_1, ": schema is 1; this version reads schema 2; commit 1816172 reads"),
    ("config.json", without("seeds"), ": lacks 'seeds'"),
    ("history.npz", with_flat_places, ": 0/position has shape (2, 3)"),
]


@pytest.mark.parametrize(("name", "harm", "why"), MISTAKES)
def test_a_harmed_file_is_named_in_one_line(make_workdir: Maker, name: str, harm: Callable, why: str) -> None:
    folder = make_workdir(rounds=10)
    harm(folder / name)
    with pytest.raises(UserError, match=re.escape(f"{name}{why}")) as error:
        page.render(read_workdir(folder))
    assert "\n" not in str(error.value)


def test_the_later_line_of_a_resumed_run_counts(make_workdir: Maker) -> None:
    folder = make_workdir(rounds=10)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"schema": 1, "point": "dam", "seed": 1, "round": 10, "accuracy": None}) + "\n\n")
        file.write(json.dumps({"schema": 1, "point": "dcm", "seed": 1, "round": 10, "accuracy": 0.125}) + "\n")
    curves = read_workdir(folder).curves
    assert curves["dcm"].accuracy[1, -1] == 0.125
    assert np.isnan(curves["dam"].accuracy[1, -1])
