"""A file in a family's folder is a member, wherever it stands in the order of imports: no list of imports names it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mdfl_jax
from mdfl_jax import UserError
from mdfl_jax.algorithms.registry import ignored_by, register

FILES = {
    "algorithms/mine.py": (
        "from mdfl_jax.algorithms.dpsgd import dpsgd\n"
        "from mdfl_jax.algorithms.registry import register\n"
        "mine = register('mine')(lambda settings: dpsgd(settings))\n"
    ),
    "exchange/mine.py": (
        "from mdfl_jax.exchange.aggregation import AGGREGATIONS\n"
        "from mdfl_jax.exchange.compressors import COMPRESSORS, IDENTITY\n"
        "COMPRESSORS.register('mine')(IDENTITY)\n"
        "AGGREGATIONS.register('mine')(lambda heard: heard.own)\n"
    ),
    "networks/mine.py": (
        "from mdfl_jax.networks.graphs import GRAPHS, Graph\n"
        "from mdfl_jax.networks.meetings import PATTERNS, Pattern\n"
        "from mdfl_jax.networks.mixing import MIXINGS\n"
        "GRAPHS.register('mine')(Graph(lambda params, key, n: None))\n"
        "PATTERNS.register('mine')(Pattern(None, None))\n"
        "MIXINGS.register('mine')(lambda inputs: inputs.adjacency)\n"
    ),
    "networks/mine_costs.py": (
        "from mdfl_jax.networks.costs import SHORT_CONTACTS, ShortContact\n"
        "SHORT_CONTACTS.register('mine')(ShortContact(None, None))\n"
    ),
    "networks/radios/mine.py": (
        "from mdfl_jax.networks.radios.radio import FADINGS, RADIOS, RATES, SHARINGS, PathLoss, Rate, Sharing\n"
        "RADIOS.register('mine')(PathLoss(None, None))\n"
        "FADINGS.register('mine')(lambda numbers, draw: draw(0))\n"
        "RATES.register('mine')(Rate(None, None))\n"
        "SHARINGS.register('mine')(Sharing(None))\n"
    ),
    "data/formats/mine.py": (
        "from mdfl_jax.data.formats import FORMATS, of_ending\n"
        "FORMATS.register('mine')(of_ending('.mine', lambda files, where: {}, place=9))\n"
    ),
    "data/partition/mine.py": (
        "from mdfl_jax.data.partition import PARTITIONS\n"
        "PARTITIONS.register('mine')(lambda key, labels, settings: 0 * labels)\n"
    ),
    "data/sources/mine.py": (
        "from mdfl_jax.data.sources import PREPARED, SOURCES\n"
        "SOURCES.register('mine')(lambda: {})\n"
        "PREPARED.register('mine')(lambda rest, directory: ({}, 0))\n"
    ),
    "metrics/built_in/mine.py": (
        "from mdfl_jax.metrics.declare import metric\nmetric('mine', still=None)(lambda at: at.score.loss)\n"
    ),
    "models/zoo/mine.py": "from mdfl_jax.models.model import MODELS\nMODELS.register('mine')(lambda settings: None)\n",
    "tasks/mine.py": (
        "from mdfl_jax.tasks.task import TASKS, TaskKind\nTASKS.register('mine')(TaskKind(lambda asked: None))\n"
    ),
    "tasks/losses/mine.py": (
        "from mdfl_jax.tasks.losses import LOSSES, Loss\nLOSSES.register('mine')(Loss(None, None, None, ()))\n"
    ),
    "traces/formats/mine.py": (
        "from mdfl_jax.traces.reading import TRACE_FORMATS, TraceFormat\n"
        "TRACE_FORMATS.register('mine')(TraceFormat(lambda path: None))\n"
    ),
}
LOOK = """
import mdfl_jax.traces.formats.waypoints  # the last file of its folder, imported first
from mdfl_jax.algorithms import ALGORITHMS, mine
from mdfl_jax.data.formats import FORMATS
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.data.sources import PREPARED, SOURCES
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.metrics import METRICS
from mdfl_jax.models import MODELS
from mdfl_jax.networks.costs import SHORT_CONTACTS
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.radios.radio import FADINGS, RADIOS, RATES, SHARINGS
from mdfl_jax.tasks import TASKS
from mdfl_jax.tasks.losses import LOSSES
from mdfl_jax.traces import TRACE_FORMATS

families = (FORMATS, PARTITIONS, PREPARED, SOURCES, METRICS, MODELS, TASKS, LOSSES, TRACE_FORMATS)
families += (FADINGS, RADIOS, RATES, SHARINGS)
families += (ALGORITHMS, AGGREGATIONS, COMPRESSORS, GRAPHS, MIXINGS, PATTERNS, SHORT_CONTACTS)
missing = [family.kind for family in families if "mine" not in family]
print(missing, mine is ALGORITHMS["mine"])
"""


def test_a_file_in_the_folder_of_a_family_is_a_member(tmp_path):
    package = Path(mdfl_jax.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    for path, text in FILES.items():
        (tmp_path / package.name / path).write_text(text)
    found = subprocess.run([sys.executable, "-c", LOOK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "[] True", found.stderr


def test_an_algorithm_can_ignore_known_settings_alone(unregistered):
    with pytest.raises(UserError, match=r"algorithm 'mine': ignores: unknown setting 'compresor' \(did you mean 'comp"):
        register("mine", ignores=("compresor",))
    before = ignored_by("dpsgd")
    with pytest.raises(UserError, match="is there already"):
        register("dpsgd", ignores=("aggregation",))(lambda settings: settings)
    assert ignored_by("dpsgd") == before
