"""Shipped configs by the devices' own compilers; each in its own process, as `--dry_run --target` does it.

Each is compiled with the least effort: whether it compiles and fits is asked, and not how fast it is. Where the extras
aot-tpu and aot-gpu are installed; all of them with MDFL_ACCELERATORS=all, as `make accelerators` does."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mdfl_jax.contrib.estimates.accounts import DEAREST, ENVIRONMENT, PLUGINS
from mdfl_jax.contrib.estimates.dry_run import in_a_child

ROOT = Path(__file__).parents[3]
CONFIGS = [
    "digits.py", "own_rule.py", "graphs_digits.py", "waypoint_digits.py", "met_digits.py", "trace_digits.py",
    "thesis_digits.py:p_non_iid", "fedmobile_digits.py", "fedmobile_roadside.py:town", "fedmobile.py:f3_variants",
    "fedmobile.py:f4", "pame.py:f3", "pame.py:f8", "pame.py:f11", "madfl.py:t2", "dadfl.py:f2", "thesis.py:t1",
    "cifar_resnet.py:madfl", "cifar_resnet.py:dadfl", "cifar_resnet.py:pame", "cifar_resnet.py:fedmobile",
]  # fmt: skip
WHOLE = os.environ.get("MDFL_ACCELERATORS") == "all"
MATRIX = [(config, target) for config in (CONFIGS if WHOLE else CONFIGS[:1]) for target in ("tpu-v5e", "h100")]
MATRIX += [(config, "tpu-v4") for config in CONFIGS] if WHOLE else []


def needs(backend):
    missing = not any(importlib.util.find_spec(name) for name in PLUGINS[backend])
    return pytest.mark.skipif(missing, reason=f"pip install -e '.[aot-{backend}]'")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write = f"from benchmarks.accelerators import stand_ins, Path; stand_ins(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", write], check=True, cwd=ROOT)  # its flags are those of a process of its own
    return folder


def compiled(config, target, images, *arguments):
    return in_a_child(
        0, [f"--config={ROOT / 'configs' / config}", "--dry_run", f"--target={target}", f"--config.data.dir={images}",
            *arguments]
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "target"),
    [pytest.param(*case, marks=needs("tpu" if case[1].startswith("tpu") else "gpu")) for case in MATRIX],
)
def test_a_shipped_config_compiles_and_fits(config, target, images):
    found = compiled(config, target, images, "--effort=least")
    assert "failure" not in found, found["failure"]
    assert sum(found["bytes"].values()) <= found["limit"]
    assert found["runs_that_fit"] >= 1
    assert "round_seconds" not in found


@pytest.mark.long
@needs("tpu")
def test_a_schedule_tells_seconds(images):
    found = compiled("digits.py", "tpu-v5e", images, "--config.model.name=linear")
    assert found["effort"] == "full"
    assert 0 < found["round_seconds"] < 1
    assert 0 < found["share_of_peak"] < 1
    assert found["evaluation_seconds"] > 0
    assert len(found["dearest"]) == DEAREST


@pytest.mark.long
@needs("tpu")
def test_chips_that_share_a_run_send_a_round_s_models_and_no_more(images):
    """Those that are mixed, and with full batches the sums of the gradients: what is as large as three times them."""
    arguments = (
        "--config.engine.client_devices=4",
        "--config.model.name=linear",
        "--config.seeds=1",
        "--config.sweep=",
    )
    found = compiled("digits.py", "tpu-v5e:2x2", images, *arguments)
    assert found["chips_per_run"] == 4
    assert sum(sent["count"] for sent in found["collectives"]) >= 1
    models = 4 * 20 * found["num_params"]
    assert models / 4 <= sum(sent["bytes"] for sent in found["collectives"]) <= 3.1 * models


DONATED = """
import jax, jax.numpy as jnp
from mdfl_jax.core import devices
from mdfl_jax.contrib.estimates import accounts
from mdfl_jax.study import memory

def program(x, which):
    def step(x, _):
        y = jax.lax.fori_loop(0, 2, lambda _, c: c + 0.1 * jnp.sin(c @ c).sum(), x)
        z = jnp.dot(y, x, precision="highest")
        return jax.lax.switch(which, [lambda: z, lambda: jnp.cos(z @ y), lambda: y @ y @ y]), None
    return jax.lax.scan(step, x, None, length=2)[0]

target = accounts.target_devices(devices.parse("tpu-v5e"))
place = jax.sharding.SingleDeviceSharding(target.devices[0])
args = [jax.ShapeDtypeStruct((34816, 34816), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)]
with devices.aimed_at(target):
    jitted = jax.jit(program, in_shardings=place, out_shardings=place, donate_argnums=0)
    found = jitted.lower(*args).compile({"exec_time_optimization_effort": -1.0}).memory_analysis()
    print(found.argument_size_in_bytes, found.temp_size_in_bytes, memory.temporary_bytes(found), target.memory)
"""


@pytest.mark.long
@needs("tpu")
def test_a_program_that_the_compiler_accepts_fits_by_our_count():
    """Its state is donated, and what lies in the place of the state is not counted twice."""
    done = subprocess.run(
        [sys.executable, "-c", DONATED], env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=True
    )
    state, temporary, ours, memory = map(int, done.stdout.split()[-4:])
    assert state + temporary > memory > state + ours > 0.8 * memory
