"""Damages of files: what a disk, a broken transfer or a crash of the machine may leave."""

import random
from collections.abc import Callable, Iterator

Change = Callable[[bytes], bytes]


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def damages(content: bytes, draw: random.Random, flips: int = 3) -> Iterator[tuple[str, bytes]]:
    """Yields damaged versions of a file that has at least one byte, each with what was done."""
    size = len(content)
    yield "empty", b""
    yield "half of it", content[: size // 2]
    yield "without its last byte", content[:-1]
    yield "longer", content + content[:100]
    begin = draw.randrange(size)
    yield f"zeros from {begin}", content[:begin] + bytes(len(content[begin : begin + 512])) + content[begin + 512 :]
    for _ in range(flips):
        place, bit = draw.randrange(size), draw.randrange(8)
        yield f"bit {bit} of byte {place}", _flipped(content, place, bit)
