"""Which collectives of a compiled program XLA's CPU runtime leaves without an order (see `mdfl_jax.core.sharding`)."""

import re
from typing import NamedTuple

_KINDS = "all-gather|all-reduce|(ragged-)?all-to-all|collective-(permute|broadcast)|reduce-scatter"
_COLLECTIVE = re.compile(rf"({_KINDS})(-start)?$")
_HEAD = re.compile(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = .*?(?<![\w%.\-])([a-z][a-z\-]*)\(")
_CALLED = re.compile(r"(?:condition|body|to_apply|true_computation|false_computation|calls)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


class Instruction(NamedTuple):
    """A line of a computation: what it reads, and the computations that it runs."""

    name: str
    opcode: str
    operands: list[str]
    called: list[str]


def computations(text: str) -> dict[str, list[Instruction]]:
    """The computations of a program in HLO's text form, each in the order of its schedule."""
    found: dict[str, list[Instruction]] = {}
    here: list[Instruction] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            here = found.setdefault(head[1], [])
        elif read := _INSTRUCTION.match(line):
            operands, _, attributes = line[read.end() :].partition("), ")
            branches = [name for listed in _BRANCHES.findall(attributes) for name in listed.split(", ")]
            called = [*_CALLED.findall(attributes), *(name.lstrip("%") for name in branches)]
            here.append(Instruction(read[1], read[2], re.findall(r"%([\w.\-]+)", operands), called))
    return found


def unordered(text: str) -> tuple[int, list[tuple[str, str]]]:
    """How many collectives a program has, and the pairs that may run beside each other.

    Those are two instructions of one computation that both make collectives, at least one of them a loop or a condition
    with collectives inside, neither of which needs the other's result. Two plain collectives are kept in order.
    """
    program, making = computations(text), {}

    def makes(name: str) -> bool:
        if name not in making:
            making[name] = any(plain(i) or any(map(makes, i.called)) for i in program.get(name, []))
        return making[name]

    def plain(instruction: Instruction) -> bool:
        return bool(_COLLECTIVE.match(instruction.opcode))

    pairs = []
    for instructions in program.values():
        needs: dict[str, set[str]] = {}
        before: list[Instruction] = []
        for i in instructions:
            needs[i.name] = set(i.operands).union(*(needs.get(name, set()) for name in i.operands))
            if plain(i) or any(map(makes, i.called)):
                apart = [b for b in before if b.name not in needs[i.name] and not (plain(b) and plain(i))]
                pairs += [(b.name, i.name) for b in apart]
                before.append(i)
    return sum(plain(i) for instructions in program.values() for i in instructions), pairs
