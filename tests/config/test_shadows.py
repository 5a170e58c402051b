"""No setting hides another one without a word: a changed setting changes the outcome, or is refused, or is noted."""

import numpy as np
import pytest
from tables import with_fields
from tiny import run_study, tiny_config

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.config.checks import notes, unused
from mdfl_jax.config.sections import member_notes
from mdfl_jax.study import make_study

START = {"seeds": "1", "rounds": "6", "eval_every": "6", "network.mobility": "static", "network.radius": "3.5"}
START |= {"data.partition": "dirichlet", "algorithm.lr": "0.05", "network.num_mobile": "0"}
SERVER = {"server.pattern": "fixed", "server.interval": "3", "server.pairs": "1", "network.mobility": "random_movement"}
SERVER |= {"network.radius": "3"}
WINDOWS = {"upload_from": "0", "upload_until": "6", "download_from": "0", "download_until": "6"}

OF_ALGORITHMS = (
    "network.mixing=lazy",
    "algorithm.participation=0.4",
    "algorithm.period_min=2 | algorithm.period_max=2",
    "algorithm.picks=one_way",
    "algorithm.local_steps=2",
    "algorithm.momentum=0.5",
    "algorithm.optimizer=adam",
    "algorithm.compressor=sign",
    "algorithm.weight_decay=0.5",
    "algorithm.lr_schedule=exponential | algorithm.lr_decay=0.5",
    "model.shared=*bias",
)
"""Changes of one setting, tried with every algorithm."""

PAIRS = """
algorithm.participation=0.5 => network.mixing=max_degree
algorithm.participation=0.5 => algorithm.picks=one_way
algorithm.period_max=3 => network.mixing=lazy
algorithm.optimizer=adam => algorithm.momentum=0.5
algorithm.lr_schedule=cosine => algorithm.lr_final=0.9
algorithm.lr_schedule=cosine => algorithm.lr_decay=0.5
algorithm.name=pame => network.mixing=lazy
network.graph=ring => network.radius=1
network.graph=ring => network.contact=swept
network.graph=ring => network.mobility=random_movement
network.graph=ring => network.link_failure=0.5
network.graph=ring => network.link_fading=0.5
network.graph=ring => network.order=move_first
network.link_failure=0.5 => network.mixing=lazy
network.relays=1 => network.mixing=fedavg
data.partition=iid => data.alpha=0.5
data.partition=shards => data.alpha=0.5
server.pattern=fixed => network.mixing=lazy
server.pattern=fixed => network.radius=1
server.pattern=fixed => network.link_failure=0.5
server.pattern=fixed | algorithm.name=server_fedavg => server.pattern=random
cost.deadline=1 => cost.speed_spread=0.5
algorithm.name=allreduce => network.link_failure=0.5
algorithm.name=allreduce => network.link_fading=0.5
algorithm.name=allreduce => cost.deadline=1
judged=global => eval_clients=4
vary=all => held_seed=3
data.name=digits => stop_std=0.1
data.name=digits => data.layout=channels_first
data.name=synthetic:linear => data.layout=channels_first
data.name=synthetic:linear => data.categories=a
data.name=synthetic:linear => data.normalize=none
"""
"""A setting, and another one that it could hide."""


def change_of(text):
    return dict(part.split("=", 1) for part in text.split(" | "))


def context_of(name):
    """The settings of a study in which every number of an algorithm counts."""
    algorithm = ALGORITHMS[name](Settings())
    met = "at_server" in algorithm.needs
    windows = {f"algorithm.{key}": value for key, value in WINDOWS.items()} if "fedmobile" in name else {}
    if name == "fedmobile_auto":
        windows = {}
    return {"algorithm.name": name} | (SERVER | windows if met else {})


CASES = [
    (context_of(name), change_of(change))
    for name in ALGORITHMS
    for change in OF_ALGORITHMS
    if (name, change) != ("local_only", "model.shared=*bias")  # it sends nothing, as its name says
]
TABLE = [line.split(" => ") for line in PAIRS.strip().splitlines()]
CASES = [*((change_of(a), change_of(b)) for a, b in TABLE), *CASES]
_known = {}


def outcome(fields, folder):
    """What a study with these settings ends with, computed once."""
    key = tuple(sorted(fields.items()))
    if key not in _known:
        place = folder / f"{len(_known)}"
        run_study(make_study(with_fields(tiny_config(), fields)), place)
        with np.load(place / "history.npz") as found:
            _known[key] = {name: found[name] for name in ("0/loss", "0/bits_sent", "0/num_heard", "0/distance_moved")}
    return _known[key]


def told(fields, changed):
    """Whether a changed setting is refused, or noted, in a line that names it."""
    try:
        experiment = make_study(with_fields(tiny_config(), fields)).points[0].experiment
    except UserError as error:
        return any(path in str(error) for path in changed)
    lines = (*notes(experiment), *member_notes(experiment), *unused([experiment]))
    return any(path in line for path in changed for line in lines)


@pytest.mark.few(len(TABLE) + 6)
@pytest.mark.parametrize(
    ("context", "change"), CASES, ids=lambda fields: ",".join(f"{k}={v}" for k, v in fields.items())
)
def test_a_changed_setting_changes_something_or_is_told(context, change, tmp_path_factory):
    before = START | context
    if told(before | change, change) or told(before, change):
        return
    folder = tmp_path_factory.mktemp("shadows")
    one, other = outcome(before, folder), outcome(before | change, folder)
    assert any(not np.array_equal(one[name], other[name], equal_nan=True) for name in one)
