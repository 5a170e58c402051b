"""A tiny study, for tests of what a study writes, not of what it learns."""

from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from mdfl_jax.config import default_config
from mdfl_jax.study import run_or_resume
from mdfl_jax.study.run import ignore
from mdfl_jax.study.study import Study

TINY = {
    "name": "tiny",
    "seeds": 2,
    "rounds": 4,
    "eval_every": 2,
    "target": 0.3,
    "data.limit_train": 120,
    "data.limit_test": 60,
    "data.partition": "iid",
    "model.name": "linear",
    "network.num_clients": 6,
    "network.num_mobile": 2,
    "network.grid_size": 5,
}
"""The fields of a study of some seconds."""


def tiny_config(**changes: Any) -> ConfigDict:
    """The configuration of a study of some seconds, changed by path: tiny_config(**{"data.alpha": 0.1})."""
    config = default_config()
    config.update_from_flattened_dict(TINY | changes)
    return config


def run_study(study: Study, folder: Path, **options: Any) -> dict[str, Any]:
    """Runs what is missing of a study in a folder, without a word, and returns its summary."""
    results, _ = run_or_resume(study, folder, **{"log": ignore, "progress": False} | options)
    assert results is not None  # this process is no worker
    return results.summary
