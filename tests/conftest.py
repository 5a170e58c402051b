"""Eight fake CPU devices before JAX starts, the oracles on the path, and a compilation cache for all tests.

Most of the time of a test is XLA's, and most programs run for milliseconds. So they are compiled with few optimisations
and by XLA's older emitters (`shell.QUICK`); those of modules that say ``COMPILE_FULLY = True`` with all optimisations.
The commands of docs/tasks.md, of the tutorial and of the wheel are compiled as a user's are.

What takes more than two seconds is marked ``long``, where a shorter test sees to the same code: `make test` leaves it
to `make test-long`.
"""

import gc
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from ml_collections import ConfigDict

sys.path.insert(0, str(Path(__file__).parent))
from shell import QUICK

# Eight devices on a few busy cores may wait long for one another in a collective: XLA would end the process after 40 s.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} {QUICK} --xla_force_host_platform_device_count=8"
    " --xla_cpu_collective_call_terminate_timeout_seconds=200"
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"mdfl_jax_test_cache_{os.getuid()}")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
for name in ("COLUMNS", "LINES"):  # readline of the parent tells xdist's processes of a terminal that is not there
    os.environ.pop(name, None)
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # seconds tell nothing
settings.load_profile("busy")
gc.set_threshold(200_000, 20, 50)  # tracing makes objects by the million, and most of them stay


PROGRAMS_UP_TO = 5 * 2**29  # bytes of this process
SIMULATIONS_HELD = 32


def _resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session")
def _compiler() -> Iterator[list[Any]]:
    """The studies of this process share their compiled programs, and those of one simulation are traced once."""
    import jax
    from studies import PROGRAMS  # not before the environment is set

    from mdfl_jax.study import runner

    class Shared(runner.Compiler):
        def __init__(self) -> None:
            super().__init__()
            self.known: dict[Any, Any] = {}
            self.lock = threading.Lock()

        def programs(self, placement: Any, runs: Any, start: Any) -> Any:
            shapes = [(x.shape, str(x.dtype)) for x in jax.tree.leaves((runs, start))]
            told = PROGRAMS.get(id(placement.simulation), id(placement.simulation))
            key = (told, placement.at_once, *placement.devices, str(shapes))
            with self.lock:  # a simulation that is held has a number of its own
                found = self.known.pop(key, None) or (placement.simulation, super().programs(placement, runs, start))
                self.known[key] = found
                if len(self.known) > SIMULATIONS_HELD:
                    del self.known[next(iter(self.known))]  # the one that was not needed for longest
            return found[1]

    shared = [Shared()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Compiler", lambda: shared[0])
        yield shared


@pytest.fixture(scope="session", autouse=True)
def _small_threefry() -> Iterator[None]:
    """Also programs of the tests' own have the package's form of random numbers, which compiles sooner."""
    from mdfl_jax.core import rng  # not before the environment is set

    with rng.small_threefry():
        yield


@pytest.fixture(scope="module", autouse=True)
def _compile_as_told(request: pytest.FixtureRequest, _compiler: list[Any]) -> None:
    """Programs are dropped where the next ones are compiled in another manner, and when they take gigabytes."""
    import jax

    few = not getattr(request.module, "COMPILE_FULLY", False)
    if jax.config.read("jax_disable_most_optimizations") != few or _resident() > PROGRAMS_UP_TO:
        jax.config.update("jax_disable_most_optimizations", few)
        jax.clear_caches()
        _compiler[0] = type(_compiler[0])()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked few(n), n cases are not long: each is the one with the most values that no earlier one has."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, same in cases.items():
        if any(item.get_closest_marker("long") for item in same):
            raise pytest.UsageError(f"{name} is marked few and long: few(n) says which cases are not long")
        (few,) = same[0].get_closest_marker("few").args
        values = {item: {(k, repr(v)) for k, v in item.callspec.params.items()} for item in same}
        seen: set[tuple[str, str]] = set()
        for _ in range(min(few, len(same))):
            taken = max(values, key=lambda item: len(values[item] - seen))
            seen |= values.pop(taken)
        for item in values:
            item.add_marker(pytest.mark.long)


@contextmanager
def _restored_registries() -> Iterator[None]:
    from mdfl_jax.config.checks import LOGGERS  # not before the environment is set
    from mdfl_jax.config.sections import entry_registries
    from mdfl_jax.core.section import SECTIONS
    from mdfl_jax.data.sources import SOURCES
    from mdfl_jax.metrics import METRICS
    from mdfl_jax.report.registry import FIGURES

    registries = (*(family.registry for family in entry_registries()), METRICS, LOGGERS, FIGURES, SOURCES, SECTIONS)
    for registry in registries:
        registry.discover()  # a module that was imported once does not register its members again
    with pytest.MonkeyPatch.context() as monkeypatch:
        for registry in registries:
            monkeypatch.setattr(registry, "_members", dict(registry._members))
        yield


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_registered() -> Iterator[None]:
    """What a module registers, for instance by importing a config with a rule of its own, is gone after it."""
    with _restored_registries():
        yield


@pytest.fixture(scope="session")
def tiny() -> Callable[..., ConfigDict]:
    """Return the configuration of a study of some seconds, changed by path: tiny(**{"data.alpha": 0.1})."""
    from tiny import tiny_config  # not before the environment is set

    return tiny_config


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with small data sets of the shapes of those that the shipped studies read. Do not change it."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for name, shape in {"cifar10": (32, 32, 3), "mnist": (28, 28), "fashion_mnist": (28, 28)}.items():
        images, labels = rng.integers(0, 256, (1700, *shape), np.uint8), (np.arange(1700) % 10).astype(np.int32)
        train, test = {"x_train": images[:1500], "y_train": labels[:1500]}, {"x_test": images[1500:]}
        np.savez(folder / f"{name}.npz", **train, **test, y_test=labels[1500:])
    return folder


@pytest.fixture
def single_again() -> Iterator[None]:
    """Studies of double precision are made in this test: the switch of JAX that they need is off again after it."""
    yield
    import jax

    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def unregistered() -> Iterator[None]:
    """What a test registers is no longer there when it has ended."""
    with _restored_registries():
        yield
