"""A file in a family's folder is a member, wherever it stands in the order of imports: no list of imports names it."""

import shutil
import subprocess
import sys
from pathlib import Path

import mdfl_jax

FILES = {
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
from mdfl_jax.data.formats import FORMATS
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.data.sources import PREPARED, SOURCES
from mdfl_jax.metrics import METRICS
from mdfl_jax.models import MODELS
from mdfl_jax.tasks import TASKS
from mdfl_jax.tasks.losses import LOSSES
from mdfl_jax.traces import TRACE_FORMATS

families = (FORMATS, PARTITIONS, PREPARED, SOURCES, METRICS, MODELS, TASKS, LOSSES, TRACE_FORMATS)
print([family.kind for family in families if "mine" not in family], *TRACE_FORMATS.as_registered())
"""


def test_a_file_in_the_folder_of_a_family_is_a_member(tmp_path):
    package = Path(mdfl_jax.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    for path, text in FILES.items():
        (tmp_path / package.name / path).write_text(text)
    found = subprocess.run([sys.executable, "-c", LOOK], cwd=tmp_path, capture_output=True, text=True, check=False)
    formats = "mine sumo sumo_geo csv csv_geo contacts bonnmotion ns2"
    assert found.stdout.strip() == f"[] {formats}", found.stderr
