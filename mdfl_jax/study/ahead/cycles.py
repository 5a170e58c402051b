"""Reads a TPU compiler's estimates for a program: cycles, the costliest operations, transfers between chips.

The compiler writes an estimate of cycles at each instruction that it schedules. This module adds them up over the
program's text (``compiled.as_text()``). The body of a loop counts as often as the constant in the loop's condition
says, and a conditional counts as its costliest branch. The sums are static and leave out contention and transfers from
the host. They serve to compare forms of a program and to plan, but they are no measurement.
"""

import math
import re
from collections import Counter
from typing import NamedTuple

ROUND = "round"  # the named scope of a round's operations, see `mdfl_jax.engine.simulation`
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
BYTES = dict.fromkeys(("pred", "s8", "u8"), 1) | dict.fromkeys(("bf16", "f16", "s16", "u16"), 2)
BYTES |= dict.fromkeys(("f64", "s64", "u64"), 8)  # others: 4

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_OPCODE = re.compile(r" ([a-z][a-z0-9\-]*)\(")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")


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
      rounds: The cycles inside its rounds.
      rest: All other cycles, which are those of the evaluation.
      operations: The cycles by operation, of the rounds and the rest together, the costliest first.
      collectives: The collectives of all its rounds. The compiler writes no cycles for them, so no sum contains them.
      unknown: The number of loops whose length the text does not say. Their bodies count once.
    """

    rounds: int
    rest: int
    operations: list[tuple[Operation, int]]
    collectives: list[Collective]
    unknown: int


class _Sums(NamedTuple):
    cycles: Counter  # (Operation, inside a round) -> cycles
    sent: Counter  # (kind, 'count' | 'size' | 'waits') -> number inside rounds; ('unknown', 'loops') -> number


def read(*texts: str) -> Cost:
    """Add up the cycles and the collectives of programs that are called one after another.

    Args:
      texts: The text ``compiled.as_text()`` of each program for a TPU.
    """
    sums = _Sums(Counter(), Counter())
    for text in texts:
        bodies, entry = _computations(text)
        _add(sums, _of(entry, bodies, {}, False), 1)
    in_rounds = sum(cycles for (_, inside), cycles in sums.cycles.items() if inside)
    by_operation: Counter = Counter()
    for (operation, _), cycles in sums.cycles.items():
        by_operation[operation] += cycles
    kinds = [kind for kind in COLLECTIVES if sums.sent[kind, "count"]]
    sent = [Collective(kind, *(sums.sent[kind, part] for part in ("count", "size", "waits"))) for kind in kinds]
    rest = sum(sums.cycles.values()) - in_rounds
    return Cost(in_rounds, rest, by_operation.most_common(), sent, sums.sent["unknown", "loops"])


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the lines of each computation by its name, and the name of the entry computation."""
    found: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            name = head.group(2)
            found[name] = []
            entry = name if head.group(1) else entry
        elif name and line.startswith("  "):
            found[name].append(line)
    return found, entry


def _named(line: str, *keys: str) -> list[str]:
    return [name for key in keys for name in re.findall(rf"\b{key}=%?([\w.\-]+)", line)]


def _turns(condition: str, bodies: dict[str, list[str]]) -> int:
    """Return how often a loop runs: the largest constant in its condition or in what that calls; 0 if not known."""
    lines = list(bodies.get(condition, ()))
    for line in bodies.get(condition, ()):
        for name in _named(line, "calls", "to_apply"):
            lines += bodies.get(name, ())
    return max((int(n) for line in lines for n in re.findall(r"s32\[\]\S* constant\((\d+)\)", line)), default=0)


def _is_round(name: str, bodies: dict[str, list[str]]) -> bool:
    """Whether a loop's body is a round: most instructions directly inside have the scope of a round in their names.

    Some have not, since the compiler moves operations between loops and passes a round's constants to the loop of an
    evaluation.
    """
    names = [source.group(1) for line in bodies.get(name, ()) if (source := re.search(r'op_name="([^"]*)"', line))]
    return 2 * sum(f"/{ROUND}/" in name for name in names) > len(names)


def _of(name: str, bodies: dict[str, list[str]], memo: dict[tuple[str, bool], _Sums], inside: bool) -> _Sums:
    """Return the sums of a computation. ``inside``: it is part of a round, whatever its instructions are called."""
    if (name, inside) in memo:
        return memo[name, inside]
    sums = memo[name, inside] = _Sums(Counter(), Counter())
    begun: dict[str, tuple[str, int]] = {}  # collectives that have started: their kind, and the cycles before them
    for line in bodies.get(name, ()):
        if " = " not in line:
            continue
        called, rest = line.split(" = ", 1)
        found = _OPCODE.search(rest)
        kind, shape = (found.group(1), rest[: found.start()].strip()) if found else ("", "")
        source = re.search(r'op_name="([^"]*)"', line)
        here = inside or bool(source and f"/{ROUND}/" in source.group(1))
        if kind == "while":
            (body,), (condition,) = _named(line, "body"), _named(line, "condition")
            turns = _turns(condition, bodies)
            sums.sent["unknown", "loops"] += not turns
            _add(sums, _of(body, bodies, memo, here or _is_round(body, bodies)), max(turns, 1))
        elif kind in ("conditional", "call"):
            names = _named(line, "to_apply", "true_computation", "false_computation")
            branches = re.search(r"branch_computations=\{([^}]*)\}", line)
            names += [n.strip().lstrip("%") for n in branches.group(1).split(",")] if branches else []
            parts = [_of(n, bodies, memo, here) for n in names]
            if parts:
                _add(sums, max(parts, key=lambda part: sum(part.cycles.values())), 1)
        elif estimate := re.search(r'"estimated_cycles":"(\d+)"', line):
            first = _ARRAY.search(shape)
            operation = Operation(kind, source.group(1) if source else "", first.group(0) if first else "")
            sums.cycles[operation, here] += int(estimate.group(1))
        if here:
            _count_collective(sums, called.split()[-1], kind, shape, rest, bodies, begun)
    return sums


def _count_collective(
    sums: _Sums,
    name: str,
    kind: str,
    shape: str,
    rest: str,
    bodies: dict[str, list[str]],
    begun: dict[str, tuple[str, int]],
) -> None:
    """Count a collective at its single or starting instruction, and at its end whether it ran alone.

    A TPU's compiler writes a collective with separate start and end as two fusions, with the collective in the first.
    """
    if "collective" not in name and not any(found in rest for found in COLLECTIVES):
        return
    cycles = sum(sums.cycles.values())
    if "-done" in kind or "collective-done" in name:
        for start in [start for start in begun if re.search(rf"{re.escape(start)}\b", rest)]:
            kind_of, before = begun.pop(start)
            sums.sent[kind_of, "waits"] += before == cycles
        return
    plain = kind.removesuffix("-start")
    if kind == "fusion" and "collective-start" in name:
        inner = [line for called in _named(rest, "calls") for line in bodies.get(called, ())]
        for line in inner:
            opcode = _OPCODE.search(line.split(" = ", 1)[-1])
            if opcode and opcode.group(1) in COLLECTIVES:
                plain, shape = opcode.group(1), line.split(" = ", 1)[-1][: opcode.start()]
    if plain not in COLLECTIVES:
        return
    arrays = [
        BYTES.get(type_, 4) * math.prod(map(int, dims.split(",")) if dims else ())
        for type_, dims in _ARRAY.findall(shape)
    ]
    if kind.endswith("-start"):  # the shapes of the inputs stand before those of the results
        arrays = arrays[len(arrays) // 2 :]
    sums.sent[plain, "count"] += 1
    sums.sent[plain, "size"] += sum(arrays)
    if kind == plain:
        sums.sent[plain, "waits"] += 1
    else:
        begun[name] = (plain, cycles)


def _add(sums: _Sums, part: _Sums, times: int) -> None:
    for whole, counter in zip(sums, part):
        for key, value in counter.items():
            whole[key] += times * value
