"""No setting hides another one without a word: a changed setting changes the outcome, or is refused, or is noted."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from tables import with_fields
from tiny import tiny_config

from mdfl_jax import UserError
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


PAIRS = """
algorithm.period_max=3 => network.mixing=lazy
algorithm.lr_schedule=cosine => algorithm.lr_final=0.9
algorithm.name=pame => network.mixing=lazy
algorithm.local_steps=2 => algorithm.proximal=0.5
algorithm.local_epochs=1 | algorithm.batch_size=8 => algorithm.local_steps=2
network.graph=ring => network.link_failure=0.5
network.mobility=random_movement | network.num_mobile=3 => motion.warm_up=5
network.mobility=random_movement | network.num_mobile=3 => motion.knowledge=met
network.mobility=dcm | network.num_mobile=3 | data.partition=shards => motion.knowledge=met
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => motion.warm_up=5
network.mobility=random_waypoint | network.num_mobile=3 | network.radius=200 => motion.width=9
network.graph=ring => graph.directed=True
network.link_failure=0.5 => network.mixing=lazy
presence.name=markov => presence.newcomers=initial
algorithm.name=local_only => presence.name=markov
cost.seconds_per_sample=1 | algorithm.batch_size=2 => clock.joins=at_once
cost.seconds_per_sample=1 | algorithm.batch_size=2 | network.radius=0.5 | clock.joins=at_once => clock.joins=in_contact
cost.seconds_per_sample=1 | algorithm.batch_size=2 | clock.joins=at_once => cost.speed_spread=1
cost.seconds_per_sample=1 | algorithm.batch_size=2 | clock.joins=at_once | algorithm.name=adpsgd => network.mixing=lazy
energy.capacity=50 | cost.joules_per_sample=1 => energy.chargers=2,2
energy.capacity=50 | cost.joules_per_sample=1 | energy.chargers=2,2 | energy.charge=15 => energy.charger_range=9
cost.joules_per_sample=0 => energy.capacity=50
data.collect=0 => data.window=2
data.collect=4 => data.drift_every=2
data.collect=4 | data.drift_every=2 => data.drift=places
network.relays=1 => network.mixing=fedavg
server.pattern=fixed => network.mixing=lazy
server.pattern=fixed | algorithm.name=server_fedavg => server.pattern=random
cost.deadline=1 => cost.speed_spread=0.5
judged=global => eval_clients=4
data.name=synthetic:linear => data.layout=channels_first
"""
"""A setting, and another one that it could hide."""


def change_of(text):
    return dict(part.split("=", 1) for part in text.split(" | "))


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


@pytest.mark.few(6)
@pytest.mark.parametrize("pair", PAIRS.strip().splitlines())
def test_a_setting_beside_another_one_changes_something_or_is_told(pair):
    assert not is_silent(*map(change_of, pair.split(" => ")))
