"""Adds up the cycles of a program for a TPU, and what chips send each other.

The compiler writes an estimate of cycles at each instruction that it schedules. The text of the program
(``compiled.as_text()``) has them. The body of a loop counts as often as the constant in the loop's condition says, and
a conditional counts as its costliest branch. The sums are static and leave out contention and transfers from the host.
They serve to compare forms of a program and to plan, but they are no measurement.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

_ROUND = "round"  # the named scope of a round's operations, see `mdfl_jax.engine.simulation`
EPOCHS = re.compile(r"\bepochs\)*/while$")  # the loop over the steps of epochs, see `mdfl_jax.algorithms.local`
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


_BYTES = dict.fromkeys(("pred", "s8", "u8"), 1) | dict.fromkeys(("bf16", "f16", "s16", "u16"), 2)
_BYTES |= dict.fromkeys(("f64", "s64", "u64"), 8)  # others: 4
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_NAMED = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ([a-z][a-z0-9\-]*)\(")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")


class _Array(NamedTuple):
    """An array of a program: its type and its sides, as the program writes them, and the bytes of its elements."""

    text: str
    size: int


class Instruction(NamedTuple):
    """An instruction of a computation.

    Attributes:
      name: its name.
      kind: what it does: fusion, convolution, while, ...
      arrays: its results.
      operands: the names of its operands.
      text: what stands behind its name.
    """

    name: str
    kind: str
    arrays: list[_Array]
    operands: list[str]
    text: str

    def named(self, *keys: str) -> list[str]:
        """Return the computations that stand behind the keys, such as ``calls`` or ``body``."""
        return [name for key in keys for name in re.findall(rf"\b{key}=%?([\w.\-]+)", self.text)]

    @property
    def source(self) -> str:
        """The place in the traced program from which it comes; '' if the compiler made it."""
        found = re.search(r'op_name="([^"]*)"', self.text)
        return found.group(1) if found else ""


Computation = Mapping[str, Instruction]
_Program = Mapping[str, Computation]


def _parse(text: str) -> tuple[_Program, str]:
    """Return the instructions of each computation of a program by name, and the name of the entry computation."""
    found: dict[str, dict[str, Instruction]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            name = head.group(2)
            found[name] = {}
            entry = name if head.group(1) else entry
        elif name and (begin := _NAMED.match(line)):
            rest = line[begin.end() :]
            opcode = _OPCODE.search(rest)
            shape = rest[: opcode.start()] if opcode else ""
            inner = rest[opcode.end() : rest.find(")", opcode.end())] if opcode else ""
            operands = re.findall(r"%([\w.\-]+)", inner)
            kind = opcode.group(1) if opcode else ""
            found[name][begin.group(1)] = Instruction(begin.group(1), kind, arrays_of(shape), operands, rest)
    return found, entry


def arrays_of(shape: str) -> list[_Array]:
    """Return the arrays of a shape, which may be that of a tuple."""
    size = lambda kind, sides: _BYTES.get(kind, 4) * math.prod(map(int, filter(None, sides.split(","))))  # noqa: E731
    return [_Array(f"{kind}[{sides}]", size(kind, sides)) for kind, sides in _ARRAY.findall(shape)]


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


class Cost(NamedTuple):
    """The cost of one call of a program, or of several programs.

    Attributes:
      rounds: The cycles of its rounds.
      rest: Those of all else, which is the evaluation.
      operations: The cycles by operation, of the rounds and the rest together, the costliest first.
      collectives: The collectives of all its rounds. The compiler writes no cycles for them, so no sum contains them.
      unknown: The number of loops whose length the text does not say. Their bodies count once.
    """

    rounds: int
    rest: int
    operations: list[tuple[Operation, int]]
    collectives: list[Collective]
    unknown: int


_Tally = defaultdict[Any, Any]  # a sum for each key, from 0


class _Sums(NamedTuple):
    cycles: _Tally  # (Operation, inside a round) -> cycles
    sent: _Tally  # (kind, 'count' | 'size' | 'waits') -> number inside rounds; ('unknown', 'loops') -> number


def _nothing() -> _Sums:
    return _Sums(*(defaultdict(int) for _ in _Sums._fields))


def read_cost(*texts: str, epoch_steps: int = 0) -> Cost:
    """Add up the cycles and the collectives of programs that are called one after another.

    Args:
      texts: The text ``compiled.as_text()`` of each program for it.
      epoch_steps: The steps of local epochs in a round, which no text says; 0: not known.
    """
    sums = _nothing()
    for text in texts:
        program, entry = _parse(text)
        _add(sums, _Reader(program, {}, epoch_steps).sums(entry, False), 1)
    by_operation: Counter = Counter()
    for (operation, _), cycles in sums.cycles.items():
        by_operation[operation] += cycles
    kinds = [kind for kind in COLLECTIVES if sums.sent[kind, "count"]]
    sent = [Collective(kind, *(sums.sent[kind, part] for part in ("count", "size", "waits"))) for kind in kinds]
    rounds, rest = (sum(n for (_, inside), n in sums.cycles.items() if inside == part) for part in (True, False))
    return Cost(rounds, rest, by_operation.most_common(), sent, sums.sent["unknown", "loops"])


class _Reader(NamedTuple):
    """Adds up the computations of a program, each once: ``known`` keeps their sums."""

    program: _Program
    known: dict[tuple[str, bool], _Sums]
    epoch_steps: int = 0

    def sums(self, name: str, inside: bool) -> _Sums:
        """Return the sums of a computation. ``inside``: it is part of a round, whatever its instructions are called."""
        if (name, inside) in self.known:
            return self.known[name, inside]
        sums = self.known[name, inside] = _nothing()
        begun: dict[str, tuple[str, int]] = {}  # collectives that have started: their kind, and the cycles before them
        for each in self.program.get(name, {}).values():
            here = inside or f"/{_ROUND}/" in each.source
            if each.kind == "while":
                (body,), (condition,) = each.named("body"), each.named("condition")
                turns = self.turns(condition) or (self.epoch_steps if EPOCHS.search(each.source) else 0)
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
                self.count_instruction(sums, each, here)
            if here:
                self.count_collective(sums, each, begun)
        return sums

    def count_instruction(self, sums: _Sums, each: Instruction, here: bool) -> None:
        """Count the cycles of an instruction."""
        if estimate := re.search(r'"estimated_cycles":"(\d+)"', each.text):
            operation = Operation(each.kind, each.source, each.arrays[0].text if each.arrays else "")
            sums.cycles[operation, here] += int(estimate.group(1))

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
        return 2 * sum(f"/{_ROUND}/" in source for source in sources) > len(sources)

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
