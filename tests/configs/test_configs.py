"""Every config file and argument builds, and the README's own rule is the file that runs."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.study import make_study

ROOT = Path(__file__).parents[2]
THESIS = ["p_non_iid", "a_non_iid", "p_iid", "a_iid"]
ARGUMENTS = {
    "arena": ["digits", "digits_met", "centre,rules=waypoint+coverage", "movers", "relays", "plane", "mnist"],
    "attacked": ["rules", "movement", "mnist"],
    "clocks": ["asynchronous", "paced", "radio"],
    "clipped_gossip": ["f6_15", "f6_16,scale=small"],
    "city": ["small", "small_roadside"],  # the others need a trace that SUMO makes
    "fedmobile_digits": ["", "random", "exponential"],
    "fedmobile_roadside": ["manhattan", "town"],
    # Of the papers' presets some: all are resolved in tests/papers.
    "fedmobile": ["f3_variants", "f4_cifar", "f10", "f14"],
    "pame": ["f2", "f8,scale=small", "f9_5000"],
    "cifar_resnet": ["small", "pame", "fedmobile_random"],
    "madfl": ["t2", "f7a,scale=small"],
    "dadfl": ["f2"],
    "met_digits": ["", "warm_up"],
    "thesis_digits": THESIS,
    "thesis": ["t1", "iid,scale=small", "algorithm_1"],
}
FILES = sorted(path.stem for path in (ROOT / "configs").glob("*.py") if path.stem != "__init__")


def write_images(directory, name, num_train=60, num_test=20, side=28, channels=()):
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", num_train), ("test", num_test)):
        arrays[f"x_{split}"] = rng.integers(0, 255, (n, side, side, *channels), dtype=np.uint8)
        arrays[f"y_{split}"] = (np.arange(n) % 10).astype(np.uint8)
    np.savez(directory / f"{name}.npz", **arrays)


@pytest.mark.long
@pytest.mark.parametrize(("name", "argument"), [(f, a) for f in FILES for a in ARGUMENTS.get(f, [None])])
def test_config_builds(name, argument, tmp_path):
    """Checked, with its points, its programs and its head's command; on stand-in images where it needs a file."""
    module = importlib.import_module(f"configs.{name}")
    assert f"--config=configs/{name}.py" in module.__doc__
    config = module.get_config(argument) if argument else module.get_config()
    if config.data.name in ("mnist", "fashion_mnist", "cifar10"):
        is_grey = config.data.name != "cifar10"
        shape = {"side": 28, "num_train": 1500} if is_grey else {"side": 32, "channels": (3,), "num_train": 1500}
        write_images(tmp_path, config.data.name, **shape)
        config.data.dir = str(tmp_path)
        if config.data.samples_per_client:
            config.data.samples_per_client = 15  # of 1,500 for at most 100 clients
    study = make_study(config)
    apart = ("algorithm.name", "data.partition", "network.num_clients", "network.graph", "network.mixing")
    apart += ("server.pattern", "server.known_next", "algorithm.compressor", "network.contact", "network.link_failure")
    apart += ("algorithm.batch_size", "algorithm.picks", "data.classes_per_client", "algorithm.aggregation")
    apart += ("data.window", "data.drift", "model.name", "cost.short_contact")
    attacks = {"": 0, "backdoor": 2}  # the success of a backdoor is a metric of its own
    programs = {
        (*map(point.overrides.get, apart), attacks.get(point.experiment.attack.name, 1)) for point in study.points
    }
    assert len(study.groups) == len(programs)  # rules and numbers share a program
    assert any(index is not None for index in study.baselines) == bool(config.baseline)


def test_readme_own_rule_is_the_config_file():
    rule = (ROOT / "configs" / "own_rule.py").read_text().split('"""', 2)[2].strip()
    assert rule in (ROOT / "README.md").read_text()


@pytest.mark.long
def test_readme_python_example_runs(capsys):
    """The README's example as it stands, with fewer rounds."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    example = next(block for block in blocks if "simulate(" in block)
    names: dict = {}
    exec(example.replace("rounds=100, eval_every=20", "rounds=10, eval_every=2"), names)
    assert names["history"].accuracy.shape == (4, 6, 20)
    assert float(names["history"].accuracy[:, -1].mean()) > 0.2
