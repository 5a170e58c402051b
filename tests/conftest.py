"""Eight fake CPU devices before JAX starts, the oracles on the path, and a compilation cache for all tests.

Programs are compiled with few optimisations, for most run for milliseconds; those of modules that say
``COMPILE_FULLY = True`` with all. What takes more than two seconds is marked ``long``, where a shorter test sees to the
same code: `make test` leaves it to `make test-long`.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Eight devices on a few busy cores may wait long for one another in a collective: XLA would end the process after 40 s.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    " --xla_cpu_collective_call_terminate_timeout_seconds=200"
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"mdfl_jax_test_cache_{os.getuid()}")
)
sys.path.insert(0, str(Path(__file__).parent))

SETTINGS = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    if getattr(request.module, "COMPILE_FULLY", False):
        yield
        return
    import jax  # not before the environment is set

    before = {name: jax.config.values[name] for name in SETTINGS}
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.clear_caches()  # what was compiled here is slow to run


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is no longer there when it has ended."""
    from mdfl_jax.algorithms import registry as algorithms  # not before the environment is set
    from mdfl_jax.experiments.config.families import FAMILIES
    from mdfl_jax.metrics import METRICS
    from mdfl_jax.report.registry import FIGURES

    for registry in (*(family.registry for family in FAMILIES), METRICS, FIGURES):
        for table in ("_members", "_numbers", "_docs", "_origins"):
            monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.setattr(algorithms, "_IGNORED", dict(algorithms._IGNORED))
