"""Adds up what a program for a TPU costs, by two meters, with its costliest operations and what chips send each other.

**By the compiler's schedule.** The compiler writes an estimate of cycles at each instruction that it schedules. It
charges element-wise passes over bfloat16 more than twice what their bytes need, and products fairly.

**By bytes and tiles.** No operation takes less time than the main memory needs for its bytes, nor less than the matrix
unit needs for its products in whole tiles (`mdfl_jax.study.ahead.hlo`). Copies beside other operations take no time of
their own, unless all bytes together take longer.

Both meters add up the program's text (``compiled.as_text()``). The body of a loop counts as often as the constant in
the loop's condition says, and a conditional counts as its costliest branch. The sums are static and leave out
contention and transfers from the host. They serve to compare forms of a program and to plan, but they are no
measurement.
"""

import re
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from mdfl_jax.core.devices import Kind
from mdfl_jax.study.ahead import hlo
from mdfl_jax.study.ahead.hlo import Instruction, Program

ROUND = "round"  # the named scope of a round's operations, see `mdfl_jax.engine.simulation`
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


class Operation(NamedTuple):
    """An instruction, or several instructions of the same kind, source and shape.

    Attributes:
      kind: The kind of the instruction.
      source: The place in the traced program from which it comes; '' if the compiler made it.
      shape: The shape of its result, or of the first of several results.
    """

    kind: str
    source: str
    shape: str


class Collective(NamedTuple):
    """The collectives of one kind in all rounds of one call of a program: data that chips send each other.

    Attributes:
      kind: One of `COLLECTIVES`.
      number: The number of collectives.
      size: The bytes of their results on a chip.
      waits: The number of collectives during which nothing else runs: no operation stands between start and end.
    """

    kind: str
    number: int
    size: int
    waits: int


class Meters(NamedTuple):
    """The cost of a part of a program by both meters.

    Attributes:
      cycles: The cycles of the compiler's schedule.
      steps: The steps of the matrix unit for its products in whole tiles (`mdfl_jax.study.ahead.hlo.tile_steps`).
      moved: The bytes that it reads from the main memory and writes to it.
      apart: The seconds of its operations one after another, each as long as its steps or its bytes need.
    """

    cycles: int
    steps: float
    moved: float
    apart: float

    def seconds(self, kind: Kind) -> float:
        """Return the seconds by bytes and tiles."""
        return max(self.apart, self.moved / kind.bandwidth)


class Cost(NamedTuple):
    """The cost of one call of a program, or of several programs.

    Attributes:
      rounds: The meters of its rounds.
      rest: Those of all else, which is the evaluation.
      operations: The cycles by operation, of the rounds and the rest together, the costliest first.
      collectives: The collectives of all its rounds. The compiler writes no cycles for them, so no sum contains them.
      unknown: The number of loops whose length the text does not say. Their bodies count once.
    """

    rounds: Meters
    rest: Meters
    operations: list[tuple[Operation, int]]
    collectives: list[Collective]
    unknown: int


_Tally = defaultdict[Any, Any]  # a sum for each key, from 0


class _Sums(NamedTuple):
    cycles: _Tally  # (Operation, inside a round) -> cycles
    hardware: _Tally  # ('steps' | 'moved' | 'apart', inside a round) -> number
    sent: _Tally  # (kind, 'count' | 'size' | 'waits') -> number inside rounds; ('unknown', 'loops') -> number


def _nothing() -> _Sums:
    return _Sums(*(defaultdict(int) for _ in _Sums._fields))


def read(kind: Kind, *texts: str) -> Cost:
    """Add up both meters and the collectives of programs that are called one after another.

    Args:
      kind: The kind of TPU.
      texts: The text ``compiled.as_text()`` of each program for it.
    """
    sums = _nothing()
    for text in texts:
        program, entry = hlo.parse(text)
        _add(sums, _Reader(kind, program, {}).sums(entry, False), 1)
    by_operation: Counter = Counter()
    for (operation, _), cycles in sums.cycles.items():
        by_operation[operation] += cycles
    kinds = [kind for kind in COLLECTIVES if sums.sent[kind, "count"]]
    sent = [Collective(kind, *(sums.sent[kind, part] for part in ("count", "size", "waits"))) for kind in kinds]
    rounds, rest = (
        Meters(
            sum(cycles for (_, inside), cycles in sums.cycles.items() if inside == part),
            *(sums.hardware[name, part] for name in Meters._fields[1:]),
        )
        for part in (True, False)
    )
    return Cost(rounds, rest, by_operation.most_common(), sent, sums.sent["unknown", "loops"])


class _Reader(NamedTuple):
    """Adds up the computations of a program, each once: ``known`` keeps their sums."""

    kind: Kind
    program: Program
    known: dict[tuple[str, bool], _Sums]

    def sums(self, name: str, inside: bool) -> _Sums:
        """Return the sums of a computation. ``inside``: it is part of a round, whatever its instructions are called."""
        if (name, inside) in self.known:
            return self.known[name, inside]
        sums = self.known[name, inside] = _nothing()
        begun: dict[str, tuple[str, int]] = {}  # collectives that have started: their kind, and the cycles before them
        for each in self.program.get(name, {}).values():
            here = inside or f"/{ROUND}/" in each.source
            if each.kind == "while":
                (body,), (condition,) = each.named("body"), each.named("condition")
                turns = self.turns(condition)
                sums.sent["unknown", "loops"] += not turns
                _add(sums, self.sums(body, here or self.is_round(body)), max(turns, 1))
            elif each.kind in ("conditional", "call"):
                names = each.named("to_apply", "true_computation", "false_computation")
                branches = re.search(r"branch_computations=\{([^}]*)\}", each.text)
                names += [n.strip().lstrip("%") for n in branches.group(1).split(",")] if branches else []
                parts = [self.sums(n, here) for n in names]
                if parts:
                    _add(sums, max(parts, key=lambda part: sum(part.cycles.values())), 1)
            else:
                self.count_instruction(sums, each, name, here)
            if here:
                self.count_collective(sums, each, begun)
        return sums

    def count_instruction(self, sums: _Sums, each: Instruction, name: str, here: bool) -> None:
        """Count an instruction of the computation ``name`` by both meters."""
        if estimate := re.search(r'"estimated_cycles":"(\d+)"', each.text):
            operation = Operation(each.kind, each.source, each.arrays[0].text if each.arrays else "")
            sums.cycles[operation, here] += int(estimate.group(1))
        moved = hlo.bytes_moved(each, self.program[name], self.program)
        steps = hlo.tile_steps(each, self.program[name], self.program, self.kind.tile)
        sums.hardware["moved", here] += moved
        sums.hardware["steps", here] += steps
        if not each.kind.endswith("-start"):
            sums.hardware["apart", here] += max(moved / self.kind.bandwidth, steps / self.kind.steps)

    def turns(self, condition: str) -> int:
        """Return how often a loop runs: the largest constant in its condition or in what that calls; 0 if not known."""
        found = list(self.program.get(condition, {}).values())
        for each in list(found):
            for name in each.named("calls", "to_apply"):
                found += self.program.get(name, {}).values()
        numbers = (re.match(r"s32\[\]\S* constant\((\d+)\)", each.text) for each in found)
        return max((int(number.group(1)) for number in numbers if number), default=0)

    def is_round(self, name: str) -> bool:
        """Whether a loop's body is a round: most instructions directly inside have the scope of a round in their names.

        Some have not, since the compiler moves operations between loops and passes a round's constants to the loop of
        an evaluation.
        """
        sources = [each.source for each in self.program.get(name, {}).values() if each.source]
        return 2 * sum(f"/{ROUND}/" in source for source in sources) > len(sources)

    def count_collective(self, sums: _Sums, each: Instruction, begun: dict[str, tuple[str, int]]) -> None:
        """Count a collective at its single or starting instruction, and at its end whether it ran alone.

        A TPU's compiler writes a collective with separate start and end as two fusions. The first has the collective.
        """
        if "collective" not in each.name and not any(kind in each.text for kind in COLLECTIVES):
            return
        cycles = sum(sums.cycles.values())
        if "-done" in each.kind or "collective-done" in each.name:
            for start in begun.keys() & set(each.operands):
                kind, before = begun.pop(start)
                sums.sent[kind, "waits"] += before == cycles
            return
        plain, arrays = each.kind.removesuffix("-start"), each.arrays
        if each.kind == "fusion" and "collective-start" in each.name:
            inner = [inside for called in each.named("calls") for inside in self.program.get(called, {}).values()]
            for inside in inner:
                if inside.kind in COLLECTIVES:
                    plain, arrays = inside.kind, inside.arrays
        if plain not in COLLECTIVES:
            return
        if each.kind.endswith("-start"):  # the shapes of the inputs stand before those of the results
            arrays = arrays[len(arrays) // 2 :]
        sums.sent[plain, "count"] += 1
        sums.sent[plain, "size"] += sum(array.size for array in arrays)
        if each.kind == plain:
            sums.sent[plain, "waits"] += 1
        else:
            begun[each.name] = (plain, cycles)


def _add(sums: _Sums, part: _Sums, times: int) -> None:
    for whole, counter in zip(sums, part):
        for key, value in counter.items():
            whole[key] += times * value
