"""Generate town.fcd.xml.gz, the trace of configs/trace_digits.py: python configs/data/make_trace.py

The town is 1,000 m x 800 m with a street every 100 m. The trace has 20 vehicles for 900 s, with a sample every 2 s, in
the format of SUMO's floating car data. Vehicles 0 to 15 ("local") stay in one of four quarters, four vehicles in each.
Vehicles 16 to 19 ("bus") drive between the quarters. A vehicle drives along the streets to a corner drawn at random,
waits there and drives on. Two local vehicles of each quarter leave the town for a while and come back. Every call
writes the same file.
"""

import gzip
import itertools
import random
from pathlib import Path

BLOCK = 100  # metres between streets
WIDTH, HEIGHT = 10, 8  # blocks
SECONDS, STEP = 900, 2
QUARTERS = [((0, 3), (0, 2)), ((7, 10), (0, 2)), ((0, 3), (6, 8)), ((7, 10), (6, 8))]  # blocks in x and in y
TOWN = Path(__file__).parent / "town.fcd.xml.gz"


def corner_in(rng: random.Random, quarter: int) -> tuple[int, int]:
    """Draw a street corner of a quarter; return its x and y in blocks."""
    (left, right), (low, high) = QUARTERS[quarter]
    return rng.randint(left, right), rng.randint(low, high)


def drive(rng: random.Random, vehicle: int) -> list[tuple[float, float, float]]:
    """Draw the route of a vehicle; return its corners (time, x, y) in seconds and metres."""
    local = vehicle < 16
    quarter = vehicle % 4
    x, y = corner_in(rng, quarter)
    time, way = 0.0, [(0.0, BLOCK * x, BLOCK * y)]
    while time < SECONDS:
        quarter = quarter if local else (quarter + rng.randint(1, 3)) % 4
        to_x, to_y = corner_in(rng, quarter)
        speed = rng.uniform(6, 10) if local else rng.uniform(10, 14)
        for next_x, next_y in ((to_x, y), (to_x, to_y)):  # along one street, then along the other
            length = BLOCK * (abs(next_x - x) + abs(next_y - y))
            if length:
                time += length / speed
                x, y = next_x, next_y
                way.append((time, BLOCK * x, BLOCK * y))
        time += rng.uniform(5, 40) if local else rng.uniform(20, 40)
        way.append((time, BLOCK * x, BLOCK * y))
    return way


def place(way: list[tuple[float, float, float]], time: float) -> tuple[float, float]:
    """Return the place (x, y) in metres of a vehicle on its route at a time in seconds.

    Raises:
      ValueError: The route does not cover this time.
    """
    for (begin, x, y), (end, to_x, to_y) in itertools.pairwise(way):
        if begin <= time <= end:
            share = (time - begin) / (end - begin)
            return x + share * (to_x - x), y + share * (to_y - y)
    raise ValueError(f"no place at {time}")


def make() -> bytes:
    """Return the content of the file before compression."""
    rng = random.Random(2024)
    ways = [drive(rng, vehicle) for vehicle in range(20)]
    # The first two local vehicles of each quarter are away for 200 s.
    away = {vehicle: (leaves, leaves + 200) for vehicle in range(8) for leaves in [rng.randint(100, 600)]}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<fcd-export>"]
    for time in range(0, SECONDS + 1, STEP):
        lines.append(f'    <timestep time="{time:.2f}">')
        for vehicle, way in enumerate(ways):
            if vehicle in away and away[vehicle][0] < time < away[vehicle][1]:
                continue
            x, y = place(way, time)
            name = f"local{vehicle}" if vehicle < 16 else f"bus{vehicle - 16}"
            lines.append(f'        <vehicle id="{name}" x="{x:.2f}" y="{y:.2f}"/>')
        lines.append("    </timestep>")
    return ("\n".join([*lines, "</fcd-export>"]) + "\n").encode()


if __name__ == "__main__":
    TOWN.write_bytes(gzip.compress(make(), 9, mtime=0))
    print(TOWN, TOWN.stat().st_size, "bytes")
