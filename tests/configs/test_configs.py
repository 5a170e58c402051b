"""Every config file and argument builds, and the rule that docs/movement.md prints is the file that runs."""

import importlib
from pathlib import Path

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
    "personal": ["", "smoke"],
    "private": ["gradients", "messages", "mnist"],
    "thesis_digits": THESIS,
    "thesis": ["t1", "iid,scale=small", "algorithm_1"],
}
FILES = sorted(path.stem for path in (ROOT / "configs").glob("*.py") if path.stem != "__init__")


@pytest.mark.long
@pytest.mark.parametrize(("name", "argument"), [(f, a) for f in FILES for a in ARGUMENTS.get(f, [None])])
def test_config_builds(name, argument, stand_ins):
    """Checked, with its points, its programs and its head's command; on stand-in images where it needs a file."""
    module = importlib.import_module(f"configs.{name}")
    assert f"mdfl sweep {name}" in module.__doc__
    config = module.get_config(argument) if argument else module.get_config()
    if (stand_ins / f"{config.data.name}.npz").is_file():
        config.data.dir = str(stand_ins)
        if config.data.samples_per_client:
            config.data.samples_per_client = 15  # of 1,500 for at most 100 clients
    study = make_study(config)
    apart = ("algorithm.name", "data.partition", "network.num_clients", "network.graph", "network.mixing")
    apart += ("server.pattern", "server.known_next", "algorithm.compressor", "network.contact", "network.link_failure")
    apart += ("algorithm.batch_size", "algorithm.picks", "data.classes_per_client", "algorithm.aggregation")
    apart += ("data.window", "data.drift", "model.name", "cost.short_contact")
    apart += ("model.shared", "personal.evaluate_after")
    attacks = {"": 0, "backdoor": 2}  # the success of a backdoor is a metric of its own
    programs = {
        (*map(point.overrides.get, apart), attacks.get(point.experiment.attack.name, 1)) for point in study.points
    }
    assert len(study.groups) == len(programs)  # rules and numbers share a program
    assert any(index is not None for index in study.baselines) == bool(config.baseline)
