"""Time robust rules of aggregation: python -m benchmarks.throughput --suite=aggregation

A round of `digits_round` with each rule beside the mean's, over neighbour lists of at most 8 and on the complete graph,
there with a PyTorch loop beside them that calls byzfl's rules (where torch and byzfl are installed); then the peak
memory of one exchange of 1,000 clients with 16 neighbours and 100,000 parameters, each in a process of its own:
python -m benchmarks.robust RULE
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app

from benchmarks import measure
from benchmarks.rounds import ROUNDS, images, model_of
from benchmarks.torch_rivals import Loop
from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import numbers_of
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.core.links import from_pairs
from mdfl_jax.core.types import Links, Network
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.neighbourhood import comparators, with_rule
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks import classification

RULES = ("median", "trimmed_mean", "krum", "clipped_gossip", "geometric_median")
CLIENTS, NEIGHBOURS, PARAMETERS = 1_000, 16, 100_000
BYZFL: dict[str, tuple[str, dict[str, Any]]] = {
    "median": ("Median", {}),
    "trimmed_mean": ("TrMean", {"f": 1}),
    "krum": ("Krum", {"f": 1}),
    "clipped_gossip": ("CenteredClipping", {"L": 1, "tau": 1.0}),
    "geometric_median": ("GeometricMedian", {"nu": 1e-6, "T": 8}),
}


def loops() -> dict[str, Callable[[], Any]]:
    """Return rounds of a PyTorch loop in which each client hears all others, with byzfl's rules and with the mean.

    A client calls the rule of byzfl for the models that it hears, as a script of byzfl's users would. It is empty where
    torch or byzfl is not installed.
    """
    if not (find_spec("torch") and find_spec("byzfl")):
        return {}
    import byzfl
    import torch

    setting = ROUNDS["digits_round"]
    loop = Loop(setting, range(setting.num_clients))
    mix = torch.full((setting.num_clients, setting.num_clients), 1 / setting.num_clients)

    def combine(rule: Any) -> None:
        loop.train()
        models = loop.flat()
        loop.load([rule(models) for _ in loop.clients])

    rules = {name: getattr(byzfl, found)(**numbers) for name, (found, numbers) in BYZFL.items()}
    calls: dict[str, Callable[[], Any]] = {"mean": partial(loop.round, mix)}
    return calls | {name: partial(combine, rule) for name, rule in rules.items()}


def operations(rule: str, places: int) -> int:
    """Return the least operations of a rule for a parameter of a client with ``places`` models, its own included.

    The mean multiplies and adds; a sorting network takes a minimum and a maximum for each of its pairs; Krum a product
    of every two models; clipping a distance and a step for each model; each of Weiszfeld's eight steps the same.
    """
    steps = {"mean": 2, "clipped_gossip": 5, "geometric_median": 8 * 5, "krum": 2 * places + 1}
    return places * steps[rule] if rule in steps else 2 * len(comparators(places))


def rounds_of(
    network: Network, params: Any, places: int, rivals: Mapping[str, Callable[[], Any]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Time a round with each rule and with the mean, and those of a rival by rule, in turns."""
    setting = ROUNDS["digits_round"]
    data = images(300 * setting.num_clients, setting.side, setting.channels)
    task = classification(data, model_of(setting), setting.num_clients, "iid", batch_size=setting.batch)
    calls, parameters = dict[str, Callable[[], Any]](), 0
    for rule in ("mean", *RULES):
        algorithm = with_rule(dpsgd(Settings(sgd(momentum=False), setting.steps, aggregation=rule)), rule)
        made, key = Simulation(task, network, algorithm, Schedule(1, 1)), jax.random.key(0)
        hparams = Hparams(DirichletNumbers(0.05), params, numbers_of("dpsgd", aggregation=rule, lr=0.01).typed())
        carry = jax.jit(made.init)(made.data, hparams, key)[0]
        program, _ = measure.compiled(made.round, made.data, hparams, key, carry)
        calls[rule], parameters = partial(program, made.data, hparams, key, carry), made.num_params
    seconds = measure.interleaved(calls | {f"byzfl {rule}": call for rule, call in rivals.items()})
    rows = []
    for rule in calls:
        row: dict[str, Any] = {"variant": f"{rule}, {places - 1} others"}
        row["seconds_per_round"] = measure.spread(seconds[rule])
        row["ratio"] = float(np.median(np.divide(seconds[rule], seconds["mean"])))
        row["operations"] = setting.num_clients * parameters * operations(rule, places)
        if rule in rivals:
            row["torch_seconds"] = measure.spread(seconds[f"byzfl {rule}"])
            row["ratio_to_torch"] = float(np.median(np.divide(seconds[rule], seconds[f"byzfl {rule}"])))
        rows.append(row)
    return rows


def exchange(rule: str) -> float:
    """Compute one exchange of many clients, and return its seconds."""
    ids = np.arange(CLIENTS)[:, None]
    apart = np.delete(np.arange(-NEIGHBOURS // 2, NEIGHBOURS // 2 + 1), NEIGHBOURS // 2)
    pairs = np.broadcast_arrays(ids, (ids + apart) % CLIENTS)
    receiver, sender = (jnp.asarray(of.ravel(), jnp.int32) for of in pairs)
    senders = from_pairs(receiver, sender, jnp.ones(receiver.shape, bool), CLIENTS, NEIGHBOURS + 1)
    hears = ~senders.own(CLIENTS)
    links = Links(hears, jnp.full(hears.shape, 1 / (NEIGHBOURS + 1)), senders=senders)
    numbers = AGGREGATIONS.numbers(rule)().typed()
    models = {"w": jax.random.normal(jax.random.key(0), (CLIENTS, PARAMETERS))}
    program, _ = measure.compiled(lambda own: aggregate(rule, Heard(links, own, own, numbers)).models, models)
    return measure.interleaved({rule: partial(program, models)}, 1)[rule][0]


def aggregation_suite() -> list[dict[str, Any]]:
    """Return the rows of all rules: rounds over lists, rounds on the complete graph, and the memory of one exchange."""
    moving = spatial(20, 18, ("random_movement",), max_neighbours=8)
    rows = rounds_of(moving, SpatialParams(), 9)
    rows += rounds_of(fixed_graph(20, "complete"), GraphParams(), 20, loops())
    for rule in ("mean", *RULES):
        seconds, mib = measure.process([sys.executable, "-m", "benchmarks.robust", rule])
        rows.append({"variant": f"{rule}, {CLIENTS:,} clients", "process_seconds": seconds, "peak_mib": mib})
    return rows


if __name__ == "__main__":
    app.run(lambda arguments: print(exchange(arguments[1])))
