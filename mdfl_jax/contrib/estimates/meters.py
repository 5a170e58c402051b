"""Adds up what a program for a TPU costs, by two meters, with its costliest operations and what chips send each other.

**By the compiler's schedule.** The compiler writes an estimate of cycles at each instruction that it schedules. It
charges element-wise passes over bfloat16 more than twice what their bytes need, and products fairly.

**By bytes and tiles.** No operation takes less time than the main memory needs for its bytes, nor less than the matrix
unit needs for its products in whole tiles (`tile_steps`). Copies beside other operations take no time of their own,
unless all bytes together take longer.

Both meters add up the program's text (``compiled.as_text()`` of a TPU's compiler), which names, for each array, the
layout with its tiles and the memory where it lies. The body of a loop counts as often as the constant in the loop's
condition says, and a conditional counts as its costliest branch. The sums are static and leave out contention and
transfers from the host. They serve to compare forms of a program and to plan, but they are no measurement.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.devices import Kind

_ROUND = "round"  # the named scope of a round's operations, see `mdfl_jax.engine.simulation`
EPOCHS = re.compile(r"\bepochs\)*/while$")  # the loop over the steps of epochs, see `mdfl_jax.algorithms.local`
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


_BYTES = dict.fromkeys(("pred", "s8", "u8"), 1) | dict.fromkeys(("bf16", "f16", "s16", "u16"), 2)
_BYTES |= dict.fromkeys(("f64", "s64", "u64"), 8)  # others: 4
PASSES = {"highest": 6, "high": 3}  # products of bfloat16 that a product of float32 takes
_PICKS = ("dynamic-slice", "slice", "gather")  # they read as much of their first operand as they return
# They move nothing. Of custom calls there are only those that name a buffer or pack the indices of a gather.
STILL = (
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "custom-call"),
    *("while", "conditional", "call", "partition-id", "replica-id"),
)

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_NAMED = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ([a-z][a-z0-9\-]*)\(")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\](?:\{([\d,]*)(?::((?:[A-Z]*\([^)]*\))*))?)?")


class Array(NamedTuple):
    """An array of a program.

    Attributes:
      text: its type and its sides, as the program writes them.
      sides: its sides.
      width: the bytes of an element.
      space: the bytes that it takes, with the padding of its tiles.
      is_far: whether it lies in the device's main memory, not in the vector memory beside the cores.
    """

    text: str
    sides: tuple[int, ...]
    width: int
    space: int
    is_far: bool

    @property
    def size(self) -> int:
        """The bytes of its elements."""
        return self.width * math.prod(self.sides)


class Instruction(NamedTuple):
    """An instruction of a computation.

    Attributes:
      name: its name.
      kind: what it does: fusion, convolution, while, ...
      arrays: its results.
      operands: the names of its operands.
      text: what stands behind its name.
      is_root: whether it is the result of its computation.
    """

    name: str
    kind: str
    arrays: list[Array]
    operands: list[str]
    text: str
    is_root: bool

    def named(self, *keys: str) -> list[str]:
        """Return the computations that stand behind the keys, such as ``calls`` or ``body``."""
        return [name for key in keys for name in re.findall(rf"\b{key}=%?([\w.\-]+)", self.text)]

    @property
    def source(self) -> str:
        """The place in the traced program from which it comes; '' if the compiler made it."""
        found = re.search(r'op_name="([^"]*)"', self.text)
        return found.group(1) if found else ""


Computation = Mapping[str, Instruction]
Program = Mapping[str, Computation]


def parse(text: str) -> tuple[Program, str]:
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
            kind, is_root = opcode.group(1) if opcode else "", bool(begin.group(1))
            found[name][begin.group(2)] = Instruction(begin.group(2), kind, arrays_of(shape), operands, rest, is_root)
    return found, entry


def arrays_of(shape: str) -> list[Array]:
    """Return the arrays of a shape, which may be that of a tuple."""
    found = []
    for kind, sides, order, layout in _ARRAY.findall(shape):
        width, lengths = _BYTES.get(kind, 4), tuple(map(int, sides.split(","))) if sides else ()
        padded = [lengths[int(axis)] for axis in order.split(",")] if order else list(lengths[::-1])
        tile = re.search(r"T\(([\d,]+)\)", layout)
        for axis, side in enumerate(reversed(tile.group(1).split(",")) if tile else ()):
            if axis < len(padded):
                padded[axis] = -(-padded[axis] // int(side)) * int(side)
        far = not re.search(r"S\([1-9]", layout)
        found.append(Array(f"{kind}[{sides}]", lengths, width, width * math.prod(padded), far))
    return found


def bytes_moved(instruction: Instruction, here: Computation, program: Program) -> int:
    """Return the bytes that an instruction reads from the device's main memory and writes to it.

    Each operand is read once and each result is written once. Of an operand that is only sliced, the slices count; of a
    result that is written into an array, the part that changes.

    Args:
      instruction: an instruction that the compiler schedules, so none inside of a fusion.
      here: the computation that contains it.
      program: all computations.
    """
    if instruction.kind in STILL or instruction.kind.endswith("-done"):
        return 0
    if instruction.kind.endswith("-start"):  # a copy beside other work: source and result stand in the tuple
        ends = [array for array in instruction.arrays if array.sides]
        return min((array.space for array in ends), default=0) * sum(array.is_far for array in ends[:2])
    moved = 0
    for index, name in enumerate(instruction.operands):
        if name in here and len(here[name].arrays) == 1 and here[name].arrays[0].is_far:
            moved += _read(instruction, index, here[name].arrays[0].space, program)
    written = _written(instruction, here, program)
    return moved + sum(size for size, array in zip(written, instruction.arrays) if array.is_far)


def _read(user: Instruction, index: int, size: int, program: Program) -> int:
    """Return the bytes that an instruction reads of its operand ``index``, which has ``size`` bytes."""
    if user.kind in _PICKS and index == 0:
        return min(size, user.arrays[0].space)
    if user.kind == "dynamic-update-slice" and index == 0:
        return 0
    inner = program.get(next(iter(user.named("calls")), ""), {})
    if user.kind == "fusion" and inner:
        number = rf"parameter\({index}\)"
        return sum(_used(each.name, inner, size, program) for each in inner.values() if re.search(number, each.text))
    return size


def _used(name: str, inner: Computation, size: int, program: Program) -> int:
    """Return the bytes that a fusion reads of an array inside of it: at most all of it, once."""
    total = 0
    for user in inner.values():
        for index in (i for i, operand in enumerate(user.operands) if operand == name):
            total += (
                _used(user.name, inner, size, program) if user.kind == "bitcast" else _read(user, index, size, program)
            )
    return min(total, size)


def _written(instruction: Instruction, here: Computation, program: Program) -> list[int]:
    """Return the bytes that an instruction writes of each of its results."""
    inner = program.get(next(iter(instruction.named("calls")), ""), {})
    root = next((each for each in inner.values() if each.is_root), None)
    if instruction.kind == "fusion" and root:
        return _written(root, inner, program)
    if instruction.kind == "dynamic-update-slice":
        return [here[instruction.operands[1]].arrays[0].space]
    if instruction.kind in ("tuple", "bitcast") and all(name in here for name in instruction.operands):
        return [size for name in instruction.operands for size in _written(here[name], here, program)[:1]]
    return [array.space for array in instruction.arrays]


def tile_steps(instruction: Instruction, here: Computation, program: Program, tile: int) -> int:
    """Return the steps of a matrix unit for the convolutions of an instruction, and of what it calls.

    A TPU's compiler writes each product of matrices as a convolution. In one step the unit multiplies a row of ``tile``
    numbers by a matrix [tile, tile], or loads a row or a column of the next matrix.
    """
    if instruction.kind == "convolution":
        return _convolution(instruction, here, tile)
    if instruction.kind != "fusion":
        return 0
    inside = [program.get(name, {}) for name in instruction.named("calls")]
    return sum(tile_steps(each, inner, program, tile) for inner in inside for each in inner.values())


def product_steps(rows: float, depth: float, columns: float, tile: int) -> int:
    """Return the least number of steps for a product [rows, depth] x [depth, columns].

    Either factor may be loaded, tile by tile, and in either direction; the rows of the other one stream through.

    >>> product_steps(1024, 64, 256, 128)
    2048
    """

    def steps(loaded: float, streamed: float) -> float:
        return math.ceil(depth / tile) * math.ceil(loaded / tile) * max(streamed, min(depth, loaded, tile))

    return math.ceil(min(steps(rows, columns), steps(columns, rows)))


def _convolution(instruction: Instruction, here: Computation, tile: int) -> int:
    """Return the steps of a convolution as products of matrices. Taps that fall on padding or holes do not count."""
    text = instruction.text
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", text)
    factors = [here[name].arrays[0] for name in instruction.operands[:2]]
    if not labels:
        return 0
    image, kernel, out = (
        dict(zip(label, array.sides)) for label, array in zip(labels.groups(), (*factors, instruction.arrays[0]))
    )
    groups = math.prod(int(n) for n in re.findall(r"(?:feature|batch)_group_count=(\d+)", text))
    count, rows, depth, columns, taps = groups, out["b"], kernel["i"], kernel["o"] / groups, 1.0
    for axis in sorted(key for key in out if key.isdigit()):
        valid = _valid_taps(text, int(axis), image[axis], kernel[axis], out[axis])
        own = out[axis] == kernel[axis] == valid  # each pixel of the output has a tap of its own
        if own and image[axis] == out[axis]:
            count *= valid  # separate products
        elif own and image[axis] == 1:
            columns *= valid
        else:
            rows *= out[axis]
            taps *= valid / out[axis]
    if min(array.width for array in factors) >= 4 and (asked := re.search(r"operand_precision=\{(\w+)", text)):
        depth *= PASSES.get(asked.group(1), 1)  # the bfloat16 parts of the factors may stand side by side
    # The taps may lengthen the rows of the image or be columns whose products are added.
    return count * min(
        product_steps(rows, depth * taps, columns, tile), product_steps(rows, depth, columns * taps, tile)
    )


def _valid_taps(text: str, axis: int, image: int, kernel: int, out: int) -> int:
    """Return how many pairs of an output pixel and a tap along an axis fall on a pixel of the image."""

    def of(key: str, default: int) -> int:
        found = re.search(r"window=\{[^}]*\b" + key + r"=([\dx_\-]+)", text)
        return int(found.group(1).split("x")[axis].split("_")[0]) if found else default

    stride, before, holes, apart = of("stride", 1), of("pad", 0), of("lhs_dilate", 1), of("rhs_dilate", 1)
    places = np.arange(out)[:, None] * stride + np.arange(kernel) * apart - before
    return int(((places % holes == 0) & (places >= 0) & (places < holes * image)).sum())


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
      steps: The steps of the matrix unit for its products in whole tiles (`tile_steps`).
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


def read(kind: Kind, *texts: str, epoch_steps: int = 0) -> Cost:
    """Add up both meters and the collectives of programs that are called one after another.

    Args:
      kind: The kind of TPU.
      texts: The text ``compiled.as_text()`` of each program for it.
      epoch_steps: The steps of local epochs in a round, which no text says; 0: not known.
    """
    sums = _nothing()
    for text in texts:
        program, entry = parse(text)
        _add(sums, _Reader(kind, program, {}, epoch_steps).sums(entry, False), 1)
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
                self.count_instruction(sums, each, name, here)
            if here:
                self.count_collective(sums, each, begun)
        return sums

    def count_instruction(self, sums: _Sums, each: Instruction, name: str, here: bool) -> None:
        """Count an instruction of the computation ``name`` by both meters."""
        if estimate := re.search(r'"estimated_cycles":"(\d+)"', each.text):
            operation = Operation(each.kind, each.source, each.arrays[0].text if each.arrays else "")
            sums.cycles[operation, here] += int(estimate.group(1))
        moved = bytes_moved(each, self.program[name], self.program)
        steps = tile_steps(each, self.program[name], self.program, self.kind.tile)
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
