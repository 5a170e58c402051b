"""The tiny study of tests/experiments, for these tests too."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_config():
    """The configuration of a study of some seconds, changed by path."""
    path = Path(__file__).parents[1] / "experiments" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_study", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tiny_config
