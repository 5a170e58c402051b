"""A simulation in steps that are compiled one by one, since equal steps of several simulations are compiled once.

`Simulation.init` is `draw`, `world`, `begin` and `evaluate`, and `Simulation.advance` is `rounds` and `evaluate`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax

from mdfl_jax.core.parts import Carry, Parts, RunFacts
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine import rounds, starting
from mdfl_jax.metrics.evaluation import Sums
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.measure import measure
from mdfl_jax.metrics.round_records import Rows


class Ran(NamedTuple):
    """The state of a run, and what an evaluation reads of the rounds before it.

    Attributes:
      carry: the state, without the clients' data.
      sums: the sums over the rounds since the last evaluation.
      rows: the values of the metrics with one value a round, in these rounds.
    """

    carry: Carry
    sums: Sums
    rows: Rows


class Steps(NamedTuple):
    """The steps of a run as pure functions, without a mesh of devices (`mdfl_jax.engine.turns`).

    Attributes:
      draw: (data, hparams, key) -> (the clients' data, one model).
      world: (hparams, key, clients) -> (the network's state before the first round, the facts about the run).
      begin: (hparams, model, the network's state) -> `Ran` before the first round.
      rounds: (data, hparams, key, clients, carry) -> `Ran` after ``eval_every`` more rounds.
      evaluate: (data, key, clients, carry, sums, rows) -> Metrics. Before the first round it is the same function as
        later, so it evaluates the models of all clients although they are the same.
    """

    draw: Any
    world: Any
    begin: Any
    rounds: Any
    evaluate: Any


def steps_of(parts: Parts) -> Steps:
    """Return the steps of a simulation of the given parts."""

    def world(hparams: Hparams, key: jax.Array, clients: Any) -> tuple[Any, RunFacts]:
        state = starting.world(parts, hparams, key, clients)
        return state, rounds.facts(parts, clients, state)

    def several(data: Any, hparams: Hparams, key: jax.Array, clients: Any, carry: Carry) -> Ran:
        after, sums, rows = rounds.several(parts, data, hparams, key, carry._replace(clients=clients))
        return Ran(after._replace(clients=None), sums, rows)

    def evaluate(data: Any, key: jax.Array, clients: Any, carry: Carry, sums: Sums, rows: Rows) -> Metrics:
        return measure(parts, data, key, carry._replace(clients=clients), sums, rows)

    return Steps(
        draw=partial(starting.draw, parts),
        world=world,
        begin=lambda hparams, model, network: Ran(*starting.begin(parts, hparams, model, network)),
        rounds=several,
        evaluate=evaluate,
    )
