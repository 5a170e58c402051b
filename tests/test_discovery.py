"""A file in a family's folder is a member: no list of imports and no `__all__` names it."""

import shutil
import subprocess
import sys
from pathlib import Path

import mdfl_jax

FILES = {
    "algorithms/mine.py": (
        "from mdfl_jax.algorithms.dpsgd import dpsgd\n"
        "from mdfl_jax.algorithms.registry import register\n"
        "mine = register('mine')(lambda settings: dpsgd(settings))\n"
    ),
    "exchange/mine.py": (
        "from mdfl_jax.exchange.compressors import COMPRESSORS, IDENTITY\nCOMPRESSORS.register('mine')(IDENTITY)\n"
    ),
    "networks/mine.py": (
        "from mdfl_jax.networks.graphs import GRAPHS, Graph\n"
        "from mdfl_jax.networks.meetings import PATTERNS, Pattern\n"
        "from mdfl_jax.networks.mixing import MIXINGS\n"
        "GRAPHS.register('mine')(Graph(lambda params, key, n: None))\n"
        "PATTERNS.register('mine')(Pattern(None, None))\n"
        "MIXINGS.register('mine')(lambda inputs: inputs.adjacency)\n"
    ),
    "networks/costs/mine.py": (
        "from mdfl_jax.networks.costs.filters import SHORT_CONTACTS, ShortContact\n"
        "SHORT_CONTACTS.register('mine')(ShortContact(None, None))\n"
    ),
}
LOOK = """
from mdfl_jax.algorithms import ALGORITHMS, mine
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.networks.costs.filters import SHORT_CONTACTS
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS

families = (ALGORITHMS, COMPRESSORS, SHORT_CONTACTS, GRAPHS, PATTERNS, MIXINGS)
print([family.kind for family in families if "mine" not in family], mine is ALGORITHMS["mine"])
"""


def test_a_file_in_the_folder_of_a_family_is_a_member(tmp_path):
    package = Path(mdfl_jax.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    for path, text in FILES.items():
        (tmp_path / package.name / path).write_text(text)
    found = subprocess.run([sys.executable, "-c", LOOK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "[] True", found.stderr
