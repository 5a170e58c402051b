"""Compiles the programs of a study: those of a group at the same time, and equal ones only once.

XLA compiles a program with several threads, but many of its steps use only one of them. Therefore a program is compiled
while the next ones are still traced, and then all are.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax

from mdfl_jax.core import devices
from mdfl_jax.core.parts import RunFacts
from mdfl_jax.engine.montecarlo import MonteCarlo, Runs
from mdfl_jax.engine.pieces import Piece, of_a_device
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.engine.steps import Ran, Steps
from mdfl_jax.metrics.history import Metrics

HELD = 60  # programs that wait for an equal one; each takes about 10 MiB of the host's memory


class Programs(NamedTuple):
    """The compiled programs of a group. A batch of runs and its state are lists, with a tree for each turn.

    Attributes:
      init: (data, runs) -> (the state, the metrics before the first round, the facts about the runs).
      advance: (data, runs, state) -> (the state after the next evaluation, its metrics); the given state is donated.
    """

    init: Callable[..., tuple[list[Any], list[Metrics], list[RunFacts]]]
    advance: Callable[..., tuple[list[Any], list[Metrics]]]


class Compiler:
    """Compiles the programs of the groups of a study, one group after another.

    The groups of a study often have one task, and networks or algorithms that differ. Their programs that do not know
    the difference are equal, and compiled once. Of many programs, those that were needed last are held.
    """

    def __init__(self) -> None:
        self._known: dict[str, Future[Any]] = {}

    def programs(self, simulation: Simulation, mc: MonteCarlo, runs: Runs, first: Runs) -> Programs:
        """Compile the programs of a group.

        Args:
          simulation: The simulation of the group.
          mc: The same, for batches of runs.
          runs: The inputs of a batch of runs.
          first: The inputs of the start of these runs, which may have models from files.
        """
        options = devices.compiler_options(simulation.alone)
        if mc.turns is None:
            return _in_two(simulation, mc, runs, first, options)
        needed: list[Future[Any]] = []
        with ThreadPoolExecutor(len(mc.turns.steps)) as pool:
            programs = _in_steps(mc, mc.turns.steps, runs, first, partial(self._compiled, pool, needed, mc, options))
        for one in needed:
            one.result()  # or the compiler's error
        return programs

    def _compiled(
        self,
        pool: ThreadPoolExecutor,
        needed: list[Future[Any]],
        mc: MonteCarlo,
        options: Any,
        piece: Piece,
        donated: int | None = None,
    ) -> Callable[..., Any]:
        """Begin to compile a piece, unless an equal one is known; returns the function that calls it."""
        lowered = piece.lower(mc.devices, donated)
        told = f"{[device.id for device in mc.devices]} {options} {lowered.as_text()}"
        name = hashlib.sha256(told.encode()).hexdigest()
        program = self._known.pop(name, None) or pool.submit(lowered.compile, options)
        self._known[name] = program  # at the end, so that the first one is the one that was not needed for longest
        if len(self._known) > HELD:
            del self._known[next(iter(self._known))]
        needed.append(program)
        return lambda *args: piece.call(program.result(), *args)


def _in_steps(mc: MonteCarlo, steps: Steps, runs: Runs, first: Runs, compiled: Callable[..., Any]) -> Programs:
    """Compile the steps of a turn, with a function of a `Piece`, and put the programs together."""
    data, begun, given = (of_a_device(x) for x in (mc.data, runs, first))
    drawing = Piece("draw", steps.draw, (data, *begun))
    draw = compiled(drawing)
    clients, model = drawing.shapes
    making = Piece("world", steps.world, (*begun, clients))
    world = compiled(making)
    beginning = Piece("begin", steps.begin, (given.hparams, model, making.shapes[0]), passes=(2,))
    begin = compiled(beginning)
    going = Piece("rounds", steps.rounds, (data, *begun, clients, beginning.shapes.carry), passes=(4,))
    go = compiled(going, donated=4)
    # The first evaluation has rows of other numbers of rounds. If no metric looks at them, its program is the same.
    evaluate, evaluate_first = (
        compiled(Piece("evaluate", steps.evaluate, (data, begun.keys, clients, *ran), passes=(4, 5)))
        for ran in (going.shapes, beginning.shapes)
    )

    def start(data: Any, hparams: Any, keys: Any) -> tuple[Any, Ran, RunFacts]:
        others = hparams._replace(start=None)
        clients, model = draw(data, others, keys)
        network, facts = world(others, keys, clients)
        return clients, begin(hparams, model, network), facts

    def init(data: Any, runs: list[Runs]) -> tuple[list[Any], list[Metrics], list[RunFacts]]:
        begun = [start(data, *turn) for turn in runs]
        metrics = [evaluate_first(data, turn.keys, clients, *ran) for turn, (clients, ran, _) in zip(runs, begun)]
        carries = [ran.carry._replace(clients=clients) for clients, ran, _ in begun]
        return carries, metrics, [facts for *_, facts in begun]

    def advance(data: Any, runs: list[Runs], carries: list[Any]) -> tuple[list[Any], list[Metrics]]:
        clients = [carry.clients for carry in carries]
        turns = list(zip(runs, clients, strict=True))
        after = [go(data, *turn, own, carry._replace(clients=None)) for (turn, own), carry in zip(turns, carries)]
        metrics = [evaluate(data, turn.keys, own, *ran) for (turn, own), ran in zip(turns, after)]
        return [ran.carry._replace(clients=own) for own, ran in zip(clients, after)], metrics

    return Programs(init, advance)


def _in_two(simulation: Simulation, mc: MonteCarlo, runs: Runs, first: Runs, options: Any) -> Programs:
    """Compile the whole start and the whole rest, on accelerators and where several devices share each run."""
    start = mc.init.lower(mc.data, *first)
    if simulation.mesh:  # the compiler decides where the state lies, so it must be there before the rounds are compiled
        init = start.compile(options)
        advance = mc.advance.lower(mc.data, *runs, init(mc.data, *first)[0]).compile(options)
    else:
        with ThreadPoolExecutor(1) as other:
            compiling = other.submit(start.compile, options)
            advance = mc.advance.lower(mc.data, *runs, start.out_info[0]).compile(options)
            init = compiling.result()

    def whole(data: Any, runs: list[Runs]) -> tuple[list[Any], list[Metrics], list[RunFacts]]:
        carry, metrics = init(data, *runs[0])
        return [carry], [metrics], [jax.vmap(jax.vmap(simulation.facts))(carry)]

    def rest(data: Any, runs: list[Runs], carries: list[Any]) -> tuple[list[Any], list[Metrics]]:
        carry, metrics = advance(data, *runs[0], carries[0])
        return [carry], [metrics]

    return Programs(whole, rest)
