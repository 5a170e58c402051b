"""Runs mdfl_jax as a study does, one evaluation after another, and tells what the slow simulator takes from it.

That is the resolved configuration, the first models, the samples of each client, and where clients are in each round.
"""

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import words_of
from mdfl_jax.config.sections import effective
from mdfl_jax.core import rng
from mdfl_jax.core.links import Senders, as_matrix
from mdfl_jax.core.message_bits import total_bits
from mdfl_jax.core.trees import leaf_paths, ravel
from mdfl_jax.engine.programs import Compiler, Placement
from mdfl_jax.networks.costs import CostParams
from mdfl_jax.study.runner import Program


def resolved(experiment):
    """The values of a configuration by path, with the defaults of the members in use; floats in single precision."""
    found = {}
    for section in dataclasses.fields(experiment):
        value = getattr(experiment, section.name)
        if dataclasses.is_dataclass(value):
            own = {f"{section.name}.{each.name}": getattr(value, each.name) for each in dataclasses.fields(value)}
            found |= {path: each for path, each in own.items() if each is not None}
        else:
            found[section.name] = value
    found |= effective(experiment)
    single = lambda x: float(np.float32(x)) if isinstance(x, float) and math.isfinite(x) else x  # noqa: E731
    return {path: single(value) for path, value in found.items()}


def innermost(state):
    while hasattr(state, "inner"):
        state = state.inner
    return state


def double(x):
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype == np.float32 else x


class Seen(NamedTuple):
    """One evaluation of one run: the models [N, d], the values of the metrics, and the network's state as NumPy."""

    models: np.ndarray
    metrics: dict[str, Any]
    world: Any


class Batch:
    """The runs of a study that share a program: points, each under its seeds."""

    compiler = Compiler()

    def __init__(self, study, group):
        self.study, self.group = study, group
        self.simulation = self.group.simulation
        self.runs = self.group.runs(self.study.seeds)
        self.experiments = [self.study.points[run.point].experiment for run in self.runs]
        self.words = np.stack([words_of(e, [run.seed])[0] for e, run in zip(self.experiments, self.runs)])
        self.hparams = [self.group.hparams[self.group.points.index(run.point)] for run in self.runs]

    def compute(self):
        """[runs][1 + evaluations] of `Seen`, from before the first round on."""
        simulation = self.simulation
        program = Program(self.study, self.group, self.compiler, len(self.runs))
        if not simulation.mesh:
            program.placement = Placement(simulation, len(self.runs), devices=jax.devices()[:1])
        program.take(self.runs)
        program.compile()
        metrics, _ = program.start()
        self.clients = [jax.tree.map(lambda x: np.asarray(x)[0], carry.clients) for carry in program.carry]
        found = [[each] for each in self.seen(program.carry, metrics)]
        for _ in range(simulation.num_evaluations):
            metrics = program.advance()
            for run, each in zip(found, self.seen(program.carry, metrics)):
                run.append(each)
        return found

    def seen(self, carries, metrics):
        """What is seen of each run."""
        return [self.seen_of(carry, {k: x[run] for k, x in metrics.items()}) for run, carry in enumerate(carries)]

    def seen_of(self, carry, metrics):
        carry = jax.tree.map(lambda x: np.asarray(x)[0], carry._replace(clients=None))
        models = ravel(self.simulation.models(carry)[0])[0]
        values = {name: double(value) for name, value in metrics.items()}
        values["bits"] = total_bits(values["bits"]) if values["bits"].ndim == 2 else values["bits"]
        return Seen(double(models), values, innermost(carry.network))

    def given(self, index, found):
        """What the slow simulator is given of a run."""
        simulation = self.simulation
        states = [each.world for each in found[index]]
        # Between evaluations nobody sees the network. Where clients do not move, it is the same in all of these rounds.
        each = [self.places(before, after) for before, after in itertools.pairwise(states)]
        seen = [place for place in each for _ in range(simulation.schedule.eval_every)]
        for each in seen:
            each["ahead"] = [(one["position"], one["there"]) for one in seen]
        costs = [leaf for leaf in jax.tree.leaves(self.hparams[index].network, is_leaf=is_costs) if is_costs(leaf)]
        load = (
            (0, 0, 0)
            if not costs
            else tuple(map(float, (costs[0].link_messages, costs[0].link_bits, costs[0].link_least)))
        )
        model = simulation.model
        return {
            "seen": seen,
            "models": found[index][0].models,
            "leaves": [(name, leaf.shape) for name, leaf in zip(leaf_paths(model), jax.tree.leaves(model))],
            "load": load,
            "counts": bool(costs),
            **self.samples(index),
        }

    def places(self, before, after):
        if not hasattr(before, "places"):  # meetings by a pattern: nobody has a place
            n = self.simulation.num_clients
            nowhere = np.zeros((n, 2))
            return {"position": nowhere, "position_after": nowhere, "there": None, "moved_after": np.zeros(n),
                    "graph": None, "mobile": np.zeros(n, bool), "speed": np.zeros(n), "path": None}  # fmt: skip
        graph = getattr(before, "drawn", None)
        if isinstance(graph, tuple) and isinstance(graph[0], Senders):
            graph = np.asarray(as_matrix(jax.numpy.asarray(graph[1]), jax.tree.map(jax.numpy.asarray, graph[0])))
        path = getattr(before, "path", None)
        return {
            "position": double(before.places.position),
            "position_after": double(after.places.position),
            "moved_after": double(after.places.distance_moved),
            "mobile": np.asarray(before.places.is_mobile),
            "there": None if getattr(before, "there", None) is None else np.asarray(before.there),
            "speed": double(getattr(before, "speed", np.zeros(self.simulation.num_clients))),
            "path": None if path is None else list(zip(double(path.times), double(path.points))),
            "graph": graph,
        }

    def samples(self, index):
        clients, data = self.clients[index], self.simulation.data
        numbers, area = self.hparams[index].task, None
        if hasattr(clients, "numbers"):  # of a private task
            clients, numbers = clients.inner, numbers.inner
        if data is None:
            n = self.simulation.num_clients
            train = [[double(x)[i] for i in range(n)] for x in clients.train]
            return {"samples": {"train": train, "test": tuple(map(double, clients.test))}}
        held = clients.held
        inner = clients
        if hasattr(held, "held"):  # collecting: the clients of the task are the regions
            inner, held, area = held, held.held, (double(numbers.low), double(numbers.high))
        ends = held.first + held.num_samples
        frozen = getattr(inner, "frozen", None)
        paths = jax.tree_util.tree_leaves_with_path(frozen)
        return {
            "samples": {
                "x": double(data.x_train).astype(float),
                "y": np.asarray(data.y_train),
                "x_test": double(data.x_test).astype(float),
                "y_test": np.asarray(data.y_test),
                "mean": 0.0 if data.mean is None else double(data.mean),
                "std": 1.0 if data.std is None else double(data.std),
                "classes": self.simulation.task.scoring.num_labels,
                "of_client": [held.sample[a:b].tolist() for a, b in zip(held.first, ends)][: self.num_owners(area)],
                "area": area,
            },
            "frozen": {jax.tree_util.keystr(p, simple=True, separator="/"): double(x) for p, x in paths},
        }

    def num_owners(self, area):
        return None if area else self.simulation.num_clients

    def key(self, index):
        return rng.keys(self.words[index : index + 1].astype(np.uint32))[0]


def is_costs(leaf):
    return isinstance(leaf, CostParams)
