"""No setting hides another one without a word: a changed setting changes the outcome, or is refused, or is noted."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from tables import with_fields
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.config.checks import notes, unused
from mdfl_jax.config.points import program_key
from mdfl_jax.config.resolve import resolve
from mdfl_jax.config.sections import member_notes
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.study.study import build_simulation, hparams_of

KEY = jax.random.key(0)
START = {"seeds": "1", "rounds": "6", "eval_every": "6", "network.mobility": "static", "network.radius": "3.5"}
START |= {"data.partition": "dirichlet", "algorithm.lr": "0.05", "network.num_mobile": "0"}
SERVER = {"server.pattern": "fixed", "server.interval": "3", "server.pairs": "1", "network.mobility": "random_movement"}
SERVER |= {"network.radius": "3"}
WINDOWS = {"upload_from": "0", "upload_until": "6", "download_from": "0", "download_until": "6"}

SHARED = "model.shared=*bias"
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
    SHARED,
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
algorithm.name=pame => algorithm.proximal=0.5
algorithm.local_steps=1 => algorithm.proximal=0.5
algorithm.local_steps=2 => algorithm.proximal=0.5
algorithm.local_steps=2 => algorithm.epoch_steps=equal
algorithm.local_epochs=1 | algorithm.batch_size=8 => algorithm.local_steps=2
algorithm.local_epochs=1 | algorithm.batch_size=8 => algorithm.epoch_steps=equal
algorithm.local_epochs=1 | algorithm.batch_size=8 => algorithm.proximal=0.5
network.graph=ring => network.radius=1
network.graph=ring => network.contact=swept
network.graph=ring => network.mobility=random_movement
network.graph=ring => network.link_failure=0.5
network.graph=ring => network.link_fading=0.5
network.graph=ring => network.order=move_first
network.mobility=random_movement | network.num_mobile=3 => motion.warm_up=5
network.mobility=random_movement | network.num_mobile=3 => motion.boundary=wrap
network.mobility=random_movement | network.num_mobile=3 => motion.width=9
network.mobility=random_movement | network.num_mobile=3 => motion.knowledge=met
network.mobility=random_movement | network.num_mobile=3 => trace.substeps=2
network.mobility=random_movement | network.num_mobile=3 => trace.start=9
network.mobility=random_movement | network.num_mobile=3 => graph.allow_disconnected=True
network.mobility=dcm | network.num_mobile=3 | data.partition=shards => motion.knowledge=met
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => motion.warm_up=5
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => motion.width=9
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => network.grid_size=9
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => network.max_step=1
network.graph=ring => network.max_step=1
network.graph=ring => motion.warm_up=5
network.graph=ring => trace.gaps=absent
network.graph=ring => graph.directed=True
network.link_failure=0.5 => network.mixing=lazy
presence.name=markov => presence.absent=train
presence.name=markov => presence.newcomers=initial
presence.name=markov => presence.newcomers=neighbour
presence.name=markov => presence.stay=5
network.graph=ring => presence.absent=train
algorithm.name=local_only => presence.name=markov
cost.seconds_per_sample=1 | algorithm.batch_size=2 => clock.joins=at_once
cost.seconds_per_sample=1 | algorithm.batch_size=2 | network.radius=0.5 | clock.joins=at_once => clock.joins=in_contact
cost.seconds_per_sample=1 | algorithm.batch_size=2 | clock.joins=at_once => cost.speed_spread=1
cost.seconds_per_sample=1 | algorithm.batch_size=2 | clock.joins=at_once | algorithm.name=adpsgd => network.mixing=lazy
energy.capacity=0 => energy.harvest=5
energy.capacity=50 | cost.joules_per_sample=1 => energy.start=0.3
energy.capacity=50 | cost.joules_per_sample=1 => energy.harvest=15
energy.capacity=50 | cost.joules_per_sample=1 => energy.charge=15
energy.capacity=50 | cost.joules_per_sample=1 => energy.chargers=2,2
energy.capacity=50 | cost.joules_per_sample=1 | energy.chargers=2,2 | energy.charge=15 => energy.charger_range=9
cost.joules_per_sample=0 => energy.capacity=50
data.collect=0 => data.window=2
data.collect=4 => data.regions=2
data.collect=4 => data.window=2
data.collect=4 => data.drift_every=2
data.collect=4 | data.drift_every=2 => data.drift=places
data.collect=4 | data.drift_every=2 => data.drift=rotation
data.name=synthetic:linear => data.collect=2
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


dataset = cache(load_dataset)
programs = {}


@cache
def built(experiment):
    """The simulation of a configuration and its numbers, as `make_study` builds them."""
    rules = [movement_of(experiment)]
    simulation = build_simulation(experiment, build_task(experiment, dataset(experiment.data)), rules)
    return simulation, hparams_of(experiment, rules, None, simulation.link_load)


@cache
def drawn(data):
    """The clients' data and the first model."""
    simulation, hparams = built(replace(resolve(tiny_config()), data=data))
    return jax.jit(simulation.draw)(simulation.data, hparams, KEY)


@cache
def outcome(experiment):
    """The models after six rounds, what was sent, and how far the clients moved; numbers share a program."""
    simulation, hparams = built(experiment)

    def whole(hparams, clients, model):
        network = simulation.world(hparams, KEY, clients)[0]
        carry = simulation.begin(hparams, model, network)[0]
        carry = simulation.rounds(simulation.data, hparams, KEY, clients, carry)[0]
        moved = simulation.network.places(carry.network).distance_moved
        return simulation.models(carry)[0], carry.messages, carry.bits, moved

    program = programs.setdefault((program_key(experiment), movement_of(experiment)), jax.jit(whole))
    return jax.device_get(jax.tree.leaves(program(hparams, *drawn(experiment.data))))


def made(fields):
    return resolve(with_fields(tiny_config(), START | fields))


@cache
def lines_of(fields):
    """What a user is told of these settings: why they are refused, or what is noted."""
    try:
        experiment = made(dict(fields))
        built(experiment)
    except UserError as error:
        return [str(error)]
    return [*notes(experiment), *member_notes(experiment), *unused([experiment])]


def told(fields, changed):
    """Whether a changed setting is refused, or noted, in a line that names it."""
    return any(path in line for path in changed for line in lines_of(tuple(fields.items())))


def is_silent(context, change):
    """Whether a change is neither told nor seen in the outcome."""
    if told(context | change, change) or told(context, change):
        return False
    pairs = zip(outcome(made(context)), outcome(made(context | change)), strict=True)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*ALGORITHMS])
def test_a_setting_of_an_algorithm_changes_something_or_is_told(name):
    changes = [change for change in OF_ALGORITHMS if (name, change) != ("local_only", SHARED)]  # it sends nothing
    assert [change for change in changes if is_silent(context_of(name), change_of(change))] == []
    programs.clear(), outcome.cache_clear(), built.cache_clear()  # no other algorithm needs these programs


@pytest.mark.few(6)
@pytest.mark.parametrize("pair", PAIRS.strip().splitlines())
def test_a_setting_beside_another_one_changes_something_or_is_told(pair):
    assert not is_silent(*map(change_of, pair.split(" => ")))
