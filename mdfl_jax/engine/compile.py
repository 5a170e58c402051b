"""Compile the steps of a simulation for a batch: all at the same time, and equal ones only once.

The program of a step lacks the inputs that the step does not read, and inputs that it returns unchanged do not pass
through it. So a step that does not depend on the algorithm, such as an evaluation, is one program for all algorithms.

XLA compiles a program with several threads, but many of its steps use only one of them. Therefore compiling a program
begins while the next ones are still traced, and all programs are compiled at the same time.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
from jax.interpreters.partial_eval import dce_jaxpr

from mdfl_jax.core import devices
from mdfl_jax.core.types import RunFacts
from mdfl_jax.engine.placement import Placement, Runs
from mdfl_jax.engine.simulation import Carry
from mdfl_jax.metrics.history import Metrics

HELD = 60  # programs that wait for an equal one; each takes about 10 MiB of the host's memory


class TracedStep:
    """A step of a simulation, traced for the runs of a turn, without what it does not need.

    Args:
      placement: says how runs lie on the devices.
      name: the name of the step's program.
      function: (*args) -> tree, from `Placement.over_runs`.
      args: the arguments as the arrays of a turn, or their shapes.
      passes: the places of those arguments whose leaves may be results as they are. They must not be donated to any
        other step as long as the result is used.
      donated: the place of an argument whose leaves are donated, except for those that are results as they are.
      lies: (shapes of the result) -> their shardings; None: `Placement.lies`.

    Attributes:
      shapes: the result, as a tree of shapes of the arrays of a turn.
      sizes: the bytes of each argument on a device.
    """

    def __init__(
        self,
        placement: Placement,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        passes: Sequence[int] = (),
        donated: int | None = None,
        lies: Callable[[Any], Any] | None = None,
    ):
        leaves, self.in_tree = jax.tree.flatten(tuple(args))
        results: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            found, tree = jax.tree.flatten(function(*jax.tree.unflatten(self.in_tree, leaves)))
            results.append(tree)
            return found

        closed = jax.make_jaxpr(flat)(*placement.traced(leaves))
        self.placement, self.name, self.out_tree = placement, name, results[-1]
        owners = [place for place, arg in enumerate(args) for _ in jax.tree.leaves(arg)]
        inputs = {var: i for i, var in enumerate(closed.jaxpr.invars) if owners[i] in passes}
        outs = closed.jaxpr.outvars
        self.passed = [inputs.get(var) if isinstance(var, jex.Var) else None for var in outs]
        needed, used = dce_jaxpr(closed.jaxpr, [i is None for i in self.passed])
        self.used = [i for i, read in enumerate(used) if read]
        self.jaxpr = jex.ClosedJaxpr(needed, closed.consts)
        shapes = placement.whole(closed.out_avals)
        self._lie = jax.tree.leaves((lies or placement.lies)(jax.tree.unflatten(self.out_tree, shapes)))
        self.shapes = jax.tree.unflatten(
            self.out_tree,
            [
                jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type, sharding=place)
                for x, place in zip(shapes, self._lie, strict=True)
            ],
        )
        self.sizes = [sum(map(_bytes_of_device, jax.tree.leaves(arg))) for arg in args]
        self._given = [j for j, i in enumerate(self.used) if owners[i] == donated and i not in self.passed]
        self._inputs = [leaves[i].sharding for i in self.used]

    def lower(self) -> Any:
        """Lower the program, whose inputs and results are the arrays of a turn."""
        of_device = jex.jaxpr_as_fun(self.jaxpr)

        def program(*leaves: Any) -> list[Any]:
            return of_device(*leaves)

        program.__name__ = program.__qualname__ = self.name
        whole = self.placement.over_devices(program)
        results = [place for place, i in zip(self._lie, self.passed, strict=True) if i is None]
        shapes = self.placement.whole(self.jaxpr.in_avals)
        jitted = jax.jit(whole, in_shardings=self._inputs, out_shardings=results, donate_argnums=self._given)
        return jitted.lower(*shapes)

    def call(self, program: Callable[..., Any], *args: Any) -> Any:
        """Call the compiled program with the whole arguments, and return the whole result."""
        leaves = jax.tree.leaves(args)
        inputs = [leaves[i] for i in self.used]
        jax.block_until_ready(inputs)  # on a CPU, launching the program would wait for them too (jax 0.10.2)
        computed = iter(program(*inputs))
        found = [next(computed) if i is None else leaves[i] for i in self.passed]
        return jax.tree.unflatten(self.out_tree, found)


def _bytes_of_device(leaf: Any) -> int:
    """Return the bytes of an array, or of a shape with a sharding, on one device."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize


def traced_steps(placement: Placement, runs: Runs, start: Runs, before: bool = True) -> Iterator[TracedStep]:
    """Trace the steps of a simulation for a batch, in the order draw, world, begin, rounds, evaluate, first evaluation.

    Args:
      placement: how the runs of the batch lie on the devices.
      runs: the inputs of a turn.
      start: the inputs of the start of these runs, which may have models from files.
      before: whether to trace the evaluation before the first round too.
    """
    of, data = placement.simulation, placement.data
    lies = lambda drawn: (placement.clients_lie(drawn[0]), placement.lies(drawn[1]))  # noqa: E731
    draw = TracedStep(placement, "draw", placement.over_runs(of.draw, has_data=True), (data, *runs), lies=lies)
    yield draw
    clients, model = draw.shapes
    world = TracedStep(placement, "world", placement.over_runs(of.world, has_data=False), (*runs, clients))
    yield world
    before_rounds = (start.hparams, model, world.shapes[0])
    begin = TracedStep(placement, "begin", placement.over_runs(of.begin, has_data=False), before_rounds, passes=(2,))
    yield begin
    args = (data, *runs, clients, begin.shapes[0])
    several = placement.over_runs(of.rounds, has_data=True)
    rounds = TracedStep(placement, "rounds", several, args, passes=(4,), donated=4)
    yield rounds
    # The first evaluation has rows of other numbers of rounds. If no metric looks at them, its program is the same.
    evaluate = placement.over_runs(of.evaluate, has_data=True)
    for after in (rounds.shapes, begin.shapes) if before else (rounds.shapes,):
        yield TracedStep(placement, "evaluate", evaluate, (data, runs.keys, clients, *after), passes=(4, 5))


class Programs(NamedTuple):
    """The compiled programs of a batch. The runs of a batch and their state are lists, with a tree for each turn.

    Attributes:
      init: (data, runs) -> (the state, the metrics before the first round, the facts about the runs).
      advance: (data, runs, state) -> (the state after the next evaluation, its metrics); the given state is donated.
    """

    init: Callable[[Any, list[Runs]], tuple[list[Carry], list[Metrics], list[RunFacts]]]
    advance: Callable[[Any, list[Runs], list[Carry]], tuple[list[Carry], list[Metrics]]]


class Compiler:
    """Compiles the programs of the groups of a study, one group after another.

    The groups of a study often have one task, and networks or algorithms that differ. Their programs that do not know
    the difference are equal, and are compiled once. Of many programs, it keeps those that were needed last.
    """

    def __init__(self) -> None:
        self._known: dict[str, Future[Any]] = {}

    def programs(self, placement: Placement, runs: Runs, start: Runs) -> Programs:
        """Compile the programs of a batch.

        Args:
          placement: how the runs of the batch lie on the devices.
          runs: the inputs of a turn.
          start: the inputs of the start of these runs, which may have models from files.
        """
        options = devices.compiler_options(placement.simulation.alone)
        with ThreadPoolExecutor(5) as pool:
            steps = [(step, self._compiled(pool, step, options)) for step in traced_steps(placement, runs, start)]
        return _put_together(*(_caller(step, program.result()) for step, program in steps))

    def _compiled(self, pool: ThreadPoolExecutor, step: TracedStep, options: Any) -> Future[Any]:
        """Begin to compile a step, unless an equal program is known."""
        lowered = step.lower()
        text = f"{[device.id for device in step.placement.devices]} {options} {lowered.as_text()}"
        name = hashlib.sha256(text.encode()).hexdigest()
        program = self._known.pop(name, None) or pool.submit(lowered.compile, options)
        self._known[name] = program  # at the end, so that the first one is the one that was not needed for longest
        if len(self._known) > HELD:
            del self._known[next(iter(self._known))]
        return program


def _caller(step: TracedStep, program: Any) -> Callable[..., Any]:
    return lambda *args: step.call(program, *args)


def _put_together(draw: Any, world: Any, begin: Any, rounds: Any, evaluate: Any, evaluate_first: Any) -> Programs:
    """Put the compiled steps of a turn together to the programs of a batch."""

    def start(data: Any, hparams: Any, keys: Any) -> tuple[Any, tuple[Any, ...], RunFacts]:
        others = hparams._replace(start=None)
        clients, model = draw(data, others, keys)
        network, facts = world(others, keys, clients)
        return clients, begin(hparams, model, network), facts

    def init(data: Any, runs: list[Runs]) -> tuple[list[Carry], list[Metrics], list[RunFacts]]:
        begun = [start(data, *turn) for turn in runs]
        metrics = [evaluate_first(data, turn.keys, clients, *at) for turn, (clients, at, _) in zip(runs, begun)]
        return [at[0]._replace(clients=own) for own, at, _ in begun], metrics, [facts for *_, facts in begun]

    def advance(data: Any, runs: list[Runs], carries: list[Carry]) -> tuple[list[Carry], list[Metrics]]:
        turns = list(zip(runs, carries, strict=True))
        after = [rounds(data, *turn, carry.clients, carry._replace(clients=None)) for turn, carry in turns]
        metrics = [evaluate(data, turn.keys, carry.clients, *at) for (turn, carry), at in zip(turns, after)]
        return [at[0]._replace(clients=carry.clients) for (_, carry), at in zip(turns, after)], metrics

    return Programs(init, advance)
