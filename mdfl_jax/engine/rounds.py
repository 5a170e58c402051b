"""The steps of a simulation: one round, and the rounds up to the next evaluation. The first state: `starting`."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core import contract, sharding
from mdfl_jax.core.client_padding import first, held_by, pad_links
from mdfl_jax.core.diverging import Divergence, largest_norm, update_divergence
from mdfl_jax.core.message_bits import add_bits
from mdfl_jax.core.parts import Carry, Parts, RunFacts
from mdfl_jax.core.rng import stream_at
from mdfl_jax.core.stopping import update_stop_state
from mdfl_jax.core.trees import of_types
from mdfl_jax.core.types import Array, ClientParams, Hparams, Links, RoundStats
from mdfl_jax.engine import division
from mdfl_jax.exchange.active import links_of_active, round_of_active
from mdfl_jax.metrics import round_records
from mdfl_jax.metrics.evaluation import RoundView, Sums, add_round, no_sums
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.measure import client_models, global_model, measure
from mdfl_jax.metrics.values import differences


def layout(parts: Parts, carry: Carry, before: int = 0) -> Carry | None:
    """Return the shardings of a state over the devices of a mesh, or None without a mesh.

    Args:
      parts: the parts of the simulation.
      carry: the state, as arrays or their shapes; ``clients`` may be None.
      before: the number of axes before the client axis, as in `mdfl_jax.core.sharding.layout`.
    """
    task = parts.task
    if task.mesh is None:
        return None
    divided = jax.tree.map(lambda _: False, carry)
    rows = sharding.padded(task.num_clients, task.mesh)
    divided = divided._replace(algorithm=sharding.stacked(carry.algorithm, rows, before))
    if task.by_client and carry.clients is not None:
        divided = divided._replace(clients=task.by_client(carry.clients))
    return sharding.layout(divided, task.mesh, before)


def settle(parts: Parts, carry: Carry) -> Carry:
    """Tell the compiler the sharding of a state, from `layout`."""
    return sharding.settle(carry, layout(parts, carry))


def kept(parts: Parts, carry: Carry, before: int = 0) -> Carry:
    """Return the part of a state that a checkpoint must contain.

    It has no data of the clients, because `init` makes them again, and no rows of padding clients, beyond N.

    Args:
      parts: the parts of the simulation.
      carry: the state, with ``before`` leading axes.
      before: the number of axes before the client axis.
    """
    num_clients = parts.task.num_clients
    rows = sharding.stacked(carry.algorithm, sharding.padded(num_clients, parts.task.mesh), before)
    cut = lambda x, of_clients: x[(slice(None),) * before + (slice(num_clients),)] if of_clients else x  # noqa: E731
    return carry._replace(clients=None, algorithm=jax.tree.map(cut, carry.algorithm, rows))


def restored(parts: Parts, saved: Carry, start: Carry, before: int = 0) -> Carry:
    """Rebuild a whole state from the part that `kept` returned. The devices may be others than before.

    Args:
      parts: the parts of the simulation.
      saved: the result of `kept`.
      start: the state before the first round, which provides the clients' data and the rows beyond N.
      before: the number of axes before the client axis.
    """

    def leaf(x: Array, whole: Array) -> Array:
        if x.shape == whole.shape:
            return x
        return np.concatenate([x, whole[(slice(None),) * before + (slice(x.shape[before], None),)]], axis=before)

    return saved._replace(clients=start.clients, algorithm=jax.tree.map(leaf, saved.algorithm, start.algorithm))


def models(parts: Parts, carry: Carry) -> tuple[ClientParams, ClientParams | None]:
    """Return the models of the N clients, [N, ...], and the algorithm's global model, [1, ...], or None for none."""
    own = parts.algorithm.global_model
    return client_models(parts, carry.algorithm), own(carry.algorithm) if own else None


def places_needed(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> jax.Array:
    """Count the places that neighbour lists need in the rounds of a run, from the movement alone.

    The lists of the network may be too short for it, since neighbours are counted before lists are made.

    Returns:
      [] int32, the largest number of places that a client needs in any round.
    """
    network = parts.network
    assert network.lists is not None
    assert network.lists.needed is not None
    held = held_by(division.divided(parts, data, hparams, key), parts.task.num_clients)

    def move(state: Any, index: jax.Array) -> tuple[Any, None]:
        return of_types(network.step(hparams.network, key, index, state, held)[0], state), None

    start = network.init(hparams.network, key, held)
    end, _ = jax.lax.scan(move, start, jnp.arange(parts.schedule.rounds, dtype=jnp.int32))
    return network.lists.needed(end)


def facts(parts: Parts, clients: Any, state: Any) -> RunFacts:
    """Return the facts about a run that the clients' data and the network's state before the first round contain."""
    network, num_clients = parts.network, parts.task.num_clients
    return RunFacts(
        first(clients.label_counts, num_clients),
        network.places(state).is_mobile,
        network.reached(state) if network.reached else jnp.zeros(num_clients, bool),
    )


def _told(parts: Parts, hparams: Hparams, carry: Carry, network_state: Any, links: Links, stats: RoundStats) -> Any:
    """Tell a network what a round has cost, and how the models differed before it, if the network asks for it."""
    network, mesh = parts.network, parts.task.mesh
    if network.after is not None:
        with jax.named_scope("costs"), sharding.tracing_over(mesh):
            without_details = stats._replace(details=None)
            counted = sharding.everywhere(network.after, hparams.network, network_state, links, without_details)
        network_state = of_types(counted, carry.network)
    if network.compare is not None:
        with jax.named_scope("compare"), sharding.tracing_over(mesh):
            apart = differences(client_models(parts, carry.algorithm))
            compared = sharding.everywhere(network.compare, network_state, links, apart)
        network_state = of_types(compared, carry.network)
    return network_state


def _diverged(parts: Parts, carry: Carry, algorithm_state: Any) -> Divergence:
    """Look at the norms of the models after a round, those of the clients and the algorithm's global one."""
    algorithm = parts.algorithm
    with jax.named_scope("divergence"):
        norm = largest_norm(algorithm.params(algorithm_state), parts.task.num_clients)
        if algorithm.global_model:
            norm = jnp.maximum(norm, largest_norm(algorithm.global_model(algorithm_state), 1))
        return update_divergence(carry.divergence, norm, parts.schedule.diverged_norm, carry.round + 1)


def one_round(
    parts: Parts, data: Any, hparams: Hparams, key: jax.Array, carry: Carry, sums: Sums
) -> tuple[Carry, Sums, round_records.Rows]:
    """Compute one round: the links of the network, then the algorithm, then the checks for divergence and for a stop.

    Args:
      parts: the parts of the simulation.
      data: the task's data.
      hparams: the numbers of the run.
      key: the seed's key.
      carry: the state before the round.
      sums: the sums over the rounds since the last evaluation.

    Returns:
      (state after the round, sums that include the round, the round's values of the metrics with one value a round).
    """
    task, network, clients = parts.task, parts.network, carry.clients
    held, rows = held_by(clients, task.num_clients), sharding.padded(task.num_clients, task.mesh)
    with jax.named_scope("round"), sharding.tracing_over(task.mesh):
        network_state, links = sharding.everywhere(network.step, hparams.network, key, carry.round, carry.network, held)
        contract.like(network.step, network_state, carry.network)
        network_state = of_types(network_state, carry.network)
        links = links_of_active(links)
        algorithm_state, stats = round_of_active(parts.algorithm)(
            hparams.algorithm,
            stream_at(key, "batch", carry.round),
            carry.algorithm,
            pad_links(links, rows),
            partial(task.gradient, data, clients),
        )
        contract.like(parts.algorithm.round, algorithm_state, carry.algorithm)
        contract.arrays(parts.algorithm.round, stats.loss, (rows,), float)
        contract.arrays(parts.algorithm.round, stats.messages, (rows,), int)
    stats = first(stats, task.num_clients)
    network_state = _told(parts, hparams, carry, network_state, links, stats)
    divergence = _diverged(parts, carry, algorithm_state)
    stop_state = carry.stop_state
    if stop_state is not None and task.objective:
        before, after = (global_model(parts, state) for state in (carry.algorithm, algorithm_state))
        differ = jax.tree.map(lambda x, y: jnp.any(x != y), before, after)
        value = task.objective(data, clients, after)
        moved = jnp.any(jnp.stack(jax.tree.leaves(differ)))
        stop_state = update_stop_state(stop_state, value, parts.schedule.stop_std, moved)
        stop_state = stop_state._replace(stopped=stop_state.stopped | divergence.is_there)
    loss = jnp.where(held.num_samples > 0, stats.loss, jnp.nan)
    view = RoundView(links, stats, loss, network, hparams.network, carry.network, network_state)
    sums = add_round(parts.metrics, sums, view)
    recorded = round_records.of_round(parts.by_round, view, task.num_clients)
    messages, bits = carry.messages + stats.messages, add_bits(carry.bits, stats.bits)
    carry = Carry(carry.round + 1, None, network_state, algorithm_state, messages, bits, stop_state, divergence)
    return settle(parts, carry)._replace(clients=clients), sums, recorded


def advance(parts: Parts, data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> tuple[Carry, Metrics]:
    """Compute ``eval_every`` rounds and an evaluation. After the run has stopped, rounds change only their index."""
    carry, sums, rows = several(parts, data, hparams, key, carry)
    return carry, measure(parts, data, key, carry, sums, rows)


def several(
    parts: Parts, data: Any, hparams: Hparams, key: jax.Array, carry: Carry
) -> tuple[Carry, Sums, round_records.Rows]:
    """Compute ``eval_every`` rounds, as `advance` without the evaluation. Those of a diverged run only count.

    Returns:
      (state, sums over these rounds, the values of the metrics with one value a round).
    """
    schedule, clients = parts.schedule, carry.clients  # clients never change: outside of the scan they are not copied

    num_clients = parts.task.num_clients

    def go(state: tuple[Carry, Sums]) -> tuple[tuple[Carry, Sums], round_records.Rows]:
        carry, sums, rows = one_round(parts, data, hparams, key, state[0]._replace(clients=clients), state[1])
        return (carry._replace(clients=None), sums), rows

    def hold(state: tuple[Carry, Sums]) -> tuple[tuple[Carry, Sums], round_records.Rows]:
        carry, sums = state
        rows = round_records.without_round(parts.by_round, parts.network, hparams.network, carry.network, num_clients)
        return (carry._replace(round=carry.round + 1), sums), rows

    has_diverged, mesh = carry.divergence.is_there, parts.task.mesh

    def body(state: tuple[Carry, Sums], _: None) -> tuple[tuple[Carry, Sums], round_records.Rows]:
        stop_state = state[0].stop_state
        if stop_state is None and mesh is None:
            return go(state)
        ended = stop_state.stopped if stop_state is not None else has_diverged
        with sharding.tracing_over(mesh):
            return sharding.choose(ended, hold, go, state)

    def all_rounds(carry: Carry) -> tuple[tuple[Carry, Sums], round_records.Rows]:
        start = (carry, no_sums(parts.metrics, parts.network))
        return jax.lax.scan(body, start, None, length=schedule.eval_every)

    def no_rounds(carry: Carry) -> tuple[tuple[Carry, Sums], round_records.Rows]:
        after, rows = hold((carry, no_sums(parts.metrics, parts.network)))
        carry = after[0]._replace(round=carry.round + schedule.eval_every)
        return (carry, after[1]), jax.tree.map(lambda x: jnp.broadcast_to(x, (schedule.eval_every, *x.shape)), rows)

    of_run = carry._replace(clients=None)
    if mesh is not None:  # devices talk in the rounds, so there is no condition around them, but a choice in each
        (carry, sums), rows = all_rounds(of_run)
    else:
        (carry, sums), rows = jax.lax.cond(has_diverged, no_rounds, all_rounds, of_run)
    return carry._replace(clients=clients), sums, round_records.no_rows(parts.metrics, num_clients) | rows
