"""A batch of runs on the devices: which device computes which run, and the compiled programs of its steps.

A run is a (hparams, key) pair: a sweep point under a seed. All runs of a batch have the same shapes, so one compiled
program serves all runs. Each device computes its runs in turns. On a CPU a turn is one run, whose models stay in the
cache. On an accelerator a turn is all runs of the device, mapped together. A program computes one turn and gets the
arrays of this turn alone, so it does not depend on the number of runs. If the simulation has a mesh, several devices
share each run, and a row of the mesh takes the role of a device. The results are those of a plain loop over runs.

The program of a step has no input that the step does not read, and an input that the step returns unchanged does not
pass through the program. So a step that does not depend on the algorithm, such as an evaluation, is one program for all
algorithms, and equal programs are compiled once. XLA compiles a program with several threads, but many of its passes
use only one thread. So the compilation of a program begins while the next programs are traced, and all are compiled at
the same time.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax.core import devices, hosts, rng, sharding
from mdfl_jax.core.devices import current
from mdfl_jax.core.traced import live
from mdfl_jax.core.types import Hparams, RunFacts
from mdfl_jax.engine.simulation import Carry, Simulation
from mdfl_jax.metrics.history import Metrics

DEVICE = "device"  # the axis of the devices that compute runs of their own
_HELD = 60  # programs kept for an equal one; each takes about 10 MiB of the host's memory
_AHEAD = 4  # turns whose programs are started while an earlier one runs


class _Runs(NamedTuple):
    """The inputs of runs.

    Attributes:
      hparams: the numbers of the runs.
      keys: typed keys, one for each run, or one for each run and stream (`mdfl_jax.core.rng`).
    """

    hparams: Hparams
    keys: jax.Array


def in_turns(simulation: Simulation, at_once: int = 0) -> bool:
    """Tell whether a device computes its runs one after another: on a CPU, or if one run keeps the device busy.

    Args:
      simulation: the simulation.
      at_once: the field ``engine.runs_at_once``, the runs that are mapped together; 0: it is not set.
    """
    return at_once == 1 or (not at_once and (current().backend == "cpu" or simulation.alone))


class Placement:
    """How the runs of a batch are divided among D devices (or rows of a mesh) with R runs each, and T turns.

    The arrays of a turn are [D, ...] if a device computes one run after another, and [D, R / T, ...] if it maps several
    runs. Runs one after another are not mapped, even as a single turn: a mapped condition would become a selection,
    which computes both branches and holds two states. For a target that is not present, the arrays are only shapes,
    which are enough to compile.

    Args:
      simulation: the simulation.
      num_runs: the number of runs that are on the devices at the same time. The last run is repeated until the turns
        are filled.
      at_once: the runs of a device that are mapped together (vmap); 0: one run on a CPU or if one run keeps the device
        busy, otherwise all runs.
      devices: the devices to use, by default those of the target; never more devices than runs are used. A mesh brings
        its own devices.

    Attributes:
      mesh: the mesh of the simulation, or one of D devices.
      at_once: the runs of a device in a turn.
      turns: for each turn, the index or the indices of its runs among the R runs of a device.
      mapped: whether the arrays of a turn have an axis of mapped runs, which may have length one.
    """

    def __init__(
        self, simulation: Simulation, num_runs: int, at_once: int = 0, devices: list[jax.Device] | None = None
    ):
        aim, shared = current(), simulation.mesh
        self.simulation, self.num_runs = simulation, num_runs
        self.mesh = shared or Mesh(np.array((devices or aim.devices)[:num_runs]), (DEVICE,))
        self._axis = sharding.SEED if shared else DEVICE
        self._num_places = self.mesh.shape[self._axis]
        per_device = -(-num_runs // self._num_places)
        self.mapped = not in_turns(simulation, at_once)
        at_once = min(at_once or per_device, per_device) if self.mapped else 1
        self.at_once = at_once
        self._per_device = -(-per_device // at_once) * at_once  # a whole number of turns
        self.turns = [slice(i, i + at_once) if self.mapped else i for i in range(0, self._per_device, at_once)]

    @property
    def devices(self) -> list[jax.Device]:
        """All devices that take part."""
        return list(self.mesh.devices.flat)

    @cached_property
    def data(self) -> Any:
        """The simulation's data with one copy on each device: leaves [D, ...]; over a mesh without the axis D."""
        if self.simulation.mesh:
            return sharding.replicate(self.simulation.data, self.mesh)
        repeated = lambda x: np.broadcast_to(x, (self._num_places, *x.shape))  # noqa: E731
        return sharding.placed(jax.tree.map(repeated, self.simulation.data), self.by_device)

    def inputs(self, hparams: list[Hparams], seeds: Sequence[int] | np.ndarray) -> list[_Runs]:
        """Return the inputs of each turn.

        Args:
          hparams: the hyperparameters of each run.
          seeds: [runs], or [runs, len(STREAMS)] with a seed for each stream.
        """
        stacked = self._filled(jax.tree.map(lambda *leaves: np.stack(leaves), *hparams))
        return self._split(_Runs(stacked, rng.keys(self._filled(np.array(seeds, np.uint32)))))

    def split(self, tree: Any) -> list[Any]:
        """Return the arrays of each turn, on their devices, from NumPy arrays [runs, ...]."""
        return self._split(self._filled(tree))

    def join(self, turns: Sequence[Any], num_runs: int) -> Any:
        """Return NumPy arrays [runs, ...] from the arrays of all turns, without the repeated runs at the end."""

        def whole(*leaves: jax.Array) -> np.ndarray:
            found = np.empty((self._num_places, self._per_device, *leaves[0].shape[1 + self.mapped :]), leaves[0].dtype)
            for leaf, turn in zip(leaves, self.turns, strict=True):
                for index, part in hosts.parts(leaf):
                    found[(index[0], turn, *index[1 + self.mapped :])] = part
            return found.reshape(self._num_places * self._per_device, *found.shape[2:])[:num_runs]

        return jax.tree.map(whole, *turns)

    def _filled(self, tree: Any) -> Any:
        """Repeat the last of the runs [runs, ...] until they fill the devices, [D, R, ...]."""

        def leaf(x: np.ndarray) -> np.ndarray:
            padded = np.concatenate([x, np.repeat(x[-1:], self._num_places * self._per_device - len(x), axis=0)])
            return padded.reshape(self._num_places, self._per_device, *x.shape[1:])

        return jax.tree.map(leaf, tree)

    def _split(self, tree: Any) -> list[Any]:
        def of_turn(turn: int | slice) -> Any:
            cut = jax.tree.map(lambda x: x[:, turn], tree)
            return sharding.placed(cut, self.lies(cut))

        return [of_turn(turn) for turn in self.turns]

    # What the programs of a turn need.

    @property
    def by_device(self) -> NamedSharding:
        """The sharding of an array [D, ...] whose row d lies on device d (or on row d of a mesh)."""
        return NamedSharding(self.mesh, PartitionSpec(self._axis))

    def lies(self, tree: Any) -> Any:
        """Return the sharding of each array of a turn. On a mesh, the models of a state are divided by client."""
        if self.simulation.mesh and isinstance(tree, Carry):
            return self.simulation.layout(tree, before=1 + self.mapped)
        if type(tree) is tuple:
            return tuple(self.lies(one) for one in tree)
        return jax.tree.map(lambda _: self.by_device, tree)

    def clients_lie(self, clients: Any) -> Any:
        """Return the sharding of each leaf of the clients' data in a turn."""
        mesh, by_client = self.simulation.mesh, self.simulation.task.hooks.spread.by_client
        return sharding.layout(by_client(clients), mesh, 1 + self.mapped) if mesh and by_client else self.lies(clients)

    def over_runs(self, step: Callable[..., Any], has_data: bool) -> Callable[..., Any]:
        """Return the function that is traced for a step of one run: it computes the runs of a turn on one device.

        Over a mesh, the function computes the runs of a turn on all devices.

        Args:
          step: one of the five steps of `Simulation`.
          has_data: whether its first argument is the data.
        """
        mesh = self.simulation.mesh

        def over(step: Callable[..., Any]) -> Callable[..., Any]:
            mapped = jax.vmap(step) if self.mapped else step
            return partial(sharding.over_rows, mesh, mapped) if mesh else mapped

        return (lambda data, *runs: over(partial(step, data))(*runs)) if has_data else over(step)

    def traced(self, tree: Any) -> Any:
        """Convert the shapes of the arrays of a turn to those with which a step is traced."""
        of_device = 0 if self.simulation.mesh else 1
        one = lambda x: x.update(shape=x.shape[of_device:], sharding=None)  # noqa: E731
        return jax.tree.map(one, jax.eval_shape(lambda tree: tree, tree))

    def whole(self, tree: Any) -> Any:
        """Convert the shapes with which a step is traced to those of the arrays of a turn."""
        before = () if self.simulation.mesh else (self._num_places,)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*before, *x.shape), x.dtype, weak_type=x.weak_type), tree)

    def over_devices(self, program: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Convert a function of the traced shapes to one of the arrays of a turn.

        Devices that compute runs of their own do so in a `jax.shard_map`, in which each device takes its own branch of
        a condition. If devices share a run, the compiler divides the function.
        """
        if self.simulation.mesh:
            return program

        def whole(*leaves: Any) -> list[Any]:
            def of_device(*full: Any) -> list[Any]:
                given = (jax.lax.squeeze(x, [0]) for x in full)
                own = program(*(next(given) if x.size else jnp.zeros(x.shape[1:], x.dtype) for x in leaves))
                return [jax.lax.expand_dims(x, [0]) for x in own]

            of_device.__name__ = of_device.__qualname__ = program.__name__
            # An input without elements stays outside: XLA removes it before Shardy, which needs every input of a
            # `jax.shard_map` and ends the process (jaxlib 0.11.2). A constant is an input too (`TracedStep.lower`).
            split, full = PartitionSpec(DEVICE), [x for x in leaves if x.size]
            return jax.shard_map(of_device, mesh=self.mesh, in_specs=split, out_specs=split, check_vma=False)(*full)

        whole.__name__ = whole.__qualname__ = program.__name__
        return whole


class TracedStep:
    """A step of a simulation, traced for the runs of a turn, without inputs that it does not read.

    Args:
      placement: how runs lie on the devices.
      name: the name of the step's program.
      function: (*args) -> tree, from `Placement.over_runs`.
      args: the arguments as the arrays of a turn, or their shapes.
      passes: the indices of the arguments whose leaves may be results unchanged. The caller must not donate such an
        argument to another step while the result is used.
      donated: the index of an argument whose leaves are donated, except for leaves that are results unchanged.
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
        needed, used = live(closed.jaxpr, [i is None for i in self.passed])
        self.used = [i for i, read in enumerate(used) if read]
        self.jaxpr = jex.ClosedJaxpr(needed, closed.consts)
        shapes = placement.whole(closed.out_avals)
        self._lie = jax.tree.leaves((lies or placement.lies)(jax.tree.unflatten(self.out_tree, shapes)))
        placed = [x.update(sharding=place) for x, place in zip(shapes, self._lie, strict=True)]
        self.shapes = jax.tree.unflatten(self.out_tree, placed)
        self.sizes = [sum(map(_bytes_of_device, jax.tree.leaves(arg))) for arg in args]
        self._given = [j for j, i in enumerate(self.used) if owners[i] == donated and i not in self.passed]
        self._inputs = [leaves[i].sharding for i in self.used]

    def lower(self) -> Any:
        """Lower the program, whose inputs and results are the arrays of a turn."""
        jaxpr, consts = self.jaxpr.jaxpr, self.jaxpr.consts

        def program(*leaves: Any) -> list[Any]:
            own = [x if x.size else jnp.zeros_like(x) for x in consts]  # see `over_devices`
            return jex.jaxpr_as_fun(jex.ClosedJaxpr(jaxpr, own))(*leaves)

        program.__name__ = program.__qualname__ = self.name
        whole = self.placement.over_devices(program)
        results = [place for place, i in zip(self._lie, self.passed, strict=True) if i is None]
        shapes = self.placement.whole(self.jaxpr.in_avals)
        jitted = jax.jit(whole, in_shardings=self._inputs, out_shardings=results, donate_argnums=self._given)
        with rng.small_threefry():
            return jitted.lower(*shapes)

    def call(self, program: Callable[..., Any], *args: Any) -> Any:
        """Call the compiled program with the whole arguments, and return the whole result."""
        leaves = jax.tree.leaves(args)
        inputs = [leaves[i] for i in self.used]
        jax.block_until_ready(inputs)  # on a CPU, launching the program would wait for them too (jax 0.10.2)
        with jax.debug_nans(False):  # a result is NaN where it is unknown: what diverged clients and empty ones score
            computed = iter(program(*inputs))
        found = [next(computed) if i is None else leaves[i] for i in self.passed]
        return jax.tree.unflatten(self.out_tree, found)


def _bytes_of_device(leaf: Any) -> int:
    """Return the bytes of an array, or of a shape with a sharding, on one device."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize


def without_start(hparams: Hparams) -> Hparams:
    """Return the numbers of a run without given first models, which no draw depends on."""
    return hparams._replace(start=None)


def traced_steps(placement: Placement, runs: _Runs, start: _Runs, before: bool = True) -> Iterator[TracedStep]:
    """Trace the steps of a simulation for a batch, in the order draw, world, begin, rounds, evaluate, first evaluation.

    Args:
      placement: how the runs of the batch lie on the devices.
      runs: the inputs of a turn, which have models from files only if rounds read them, too.
      start: the inputs of the start of these runs, which may have models from files.
      before: whether to trace the evaluation before the first round too.
    """
    of, data = placement.simulation, placement.data
    lies = lambda drawn: (placement.clients_lie(drawn[0]), placement.lies(drawn[1]))  # noqa: E731
    drawn = without_start(runs.hparams), runs.keys
    draw = TracedStep(placement, "draw", placement.over_runs(of.draw, has_data=True), (data, *drawn), lies=lies)
    yield draw
    clients, model = draw.shapes
    world = TracedStep(placement, "world", placement.over_runs(of.world, has_data=False), (*drawn, clients))
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
    """The compiled steps of a turn, in the order of `traced_steps`, and the functions of a batch that call them.

    The runs of a batch and their states are lists with a tree for each turn.
    """

    draw: Callable[..., Any]
    world: Callable[..., Any]
    begin: Callable[..., Any]
    rounds: Callable[..., Any]
    evaluate: Callable[..., Any]
    evaluate_first: Callable[..., Any]

    def init(self, data: Any, runs: list[_Runs]) -> tuple[list[Carry], list[Metrics], list[RunFacts]]:
        """Return the states before the first round, their metrics, and the facts about the runs."""

        def begun(turn: _Runs) -> tuple[Carry, Metrics, RunFacts]:
            own, at, facts = self._start(data, *turn)
            return at[0]._replace(clients=own), self.evaluate_first(data, turn.keys, own, *at), facts

        carries, metrics, facts = zip(*_in_turns(begun, runs))
        return list(carries), list(metrics), list(facts)

    def advance(self, data: Any, runs: list[_Runs], carries: list[Carry]) -> tuple[list[Carry], list[Metrics]]:
        """Return the states after the next evaluation, and its metrics. The given states are donated."""

        def advanced(turn: _Runs, carry: Carry) -> tuple[Carry, Metrics]:
            at = self.rounds(data, *turn, carry.clients, carry._replace(clients=None))
            return at[0]._replace(clients=carry.clients), self.evaluate(data, turn.keys, carry.clients, *at)

        after, metrics = zip(*_in_turns(advanced, runs, carries))
        return list(after), list(metrics)

    def _start(self, data: Any, hparams: Hparams, keys: jax.Array) -> tuple[Any, tuple[Any, ...], RunFacts]:
        drawn = without_start(hparams)
        clients, model = self.draw(data, drawn, keys)
        network, facts = self.world(drawn, keys, clients)
        return clients, self.begin(hparams, model, network), facts


def _in_turns(function: Callable[..., Any], *turns: Sequence[Any]) -> list[Any]:
    """Return the results of a function for all turns. A turn is started before the earlier turns end.

    At most `_AHEAD` turns wait: with some thirty started programs, CPU devices that share a run wait for one another
    forever (jaxlib 0.10.2).
    """
    found: list[Any] = []
    for k, turn in enumerate(zip(*turns, strict=True)):
        if k >= _AHEAD:
            jax.block_until_ready(found[k - _AHEAD])
        found.append(function(*turn))
    return found


class Compiler:
    """Compiles the programs of the groups of a study, one group after another.

    The groups of a study often have the same task, and other networks or algorithms. Programs that do not depend on the
    difference are equal, and are compiled once. The compiler keeps the `_HELD` programs that were used last.
    """

    def __init__(self) -> None:
        self._known: dict[str, Future[Any]] = {}

    def programs(self, placement: Placement, runs: _Runs, start: _Runs) -> Programs:
        """Compile the programs of a batch.

        Args:
          placement: how the runs of the batch lie on the devices.
          runs: the inputs of a turn.
          start: the inputs of the start of these runs, which may have models from files.
        """
        options = devices.compiler_options(placement.simulation.alone)
        with ThreadPoolExecutor(5) as pool:
            steps = [(step, self._compiled(pool, step, options)) for step in traced_steps(placement, runs, start)]
        return Programs(*(partial(step.call, program.result()) for step, program in steps))

    def _compiled(self, pool: ThreadPoolExecutor, step: TracedStep, options: Any) -> Future[Any]:
        """Begin to compile a step, unless an equal program is known."""
        lowered = step.lower()
        text = f"{[device.id for device in step.placement.devices]} {options} {lowered.as_text()}"
        name = hashlib.sha256(text.encode()).hexdigest()
        program = self._known.pop(name, None) or pool.submit(lowered.compile, options)
        self._known[name] = program  # at the end: the first program is then the one that was unused for longest
        if len(self._known) > _HELD:
            del self._known[next(iter(self._known))]
        return program
