"""Make the traffic of configs/city.py with SUMO: python configs/data/make_city.py [--out=DIR]

SUMO simulates traffic vehicle by vehicle. It comes with the extra `sumo` of this project. The city has arterial roads
with two lanes in each direction, traffic lights where two of them cross (every other one is half a cycle behind), and
side streets without priority, some of which are missing. Vans drive from place to place for the whole time. Cars make
trips with one place on the way. All of them take the fastest route in the traffic of the moment. The places of all
vehicles in an hour are kept.

DIR is the folder "city" of the data directory (MDFL_DATA_DIR), or else of the current folder. It gets
city.fcd.xml.gz, the places (SUMO's floating car data), city.net.xml.gz, the streets, and city.json, which says what was
made. If they are there already, nothing is made. Each call makes the same files, with the same version of SUMO.
--size=small makes the traffic of about 100 vehicles that is in this folder.
"""

import gzip
import json
import os
import random
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from absl import flags
from sumo_tools import call, numbers_of, only_streets, sumo_home

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError

HERE = Path(__file__).parent


@dataclass(frozen=True)
class City:
    """What is made.

    Attributes:
      name: the beginning of the names of the files.
      blocks: the number of blocks between streets, in each direction.
      vans: vehicles that drive for the whole time.
      cars: vehicles that depart in an hour for a trip with one stop on the way.
      seconds: the length of the trace, after `warm_up` seconds in which the vans enter the city.
      step: seconds from one sample of a vehicle to the next.
      block: metres from street to street.
      every: one of so many streets is an arterial road.
      missing: the share of the pieces of side streets that are not there.
    """

    name: str
    blocks: int
    vans: int
    cars: int
    seconds: int
    step: int
    warm_up: int = 300
    block: float = 150.0
    every: int = 4
    missing: float = 0.15


SIZES = {
    "city": City("city", blocks=36, vans=3900, cars=4000, seconds=3600, step=3, warm_up=600),
    "small": City("city_small", blocks=8, vans=90, cars=160, seconds=360, step=6),
}

_SIZE = flags.DEFINE_enum("size", "city", list(SIZES), "Which city.")
_OUT = flags.DEFINE_string("out", "", "Folder for the files; empty: city/ in the data directory or here.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of the streets, the trips and the traffic.", lower_bound=0)


def streets(city: City, seed: int) -> tuple[str, str]:
    """Draw the city; return its junctions and its streets in SUMO's plain XML."""
    rng = random.Random(seed)
    nodes, edges = ["<nodes>"], ["<edges>"]
    corners = [(i, j) for i in range(city.blocks + 1) for j in range(city.blocks + 1)]
    for i, j in corners:
        roads = [k % city.every == 0 for k in (i, j)]  # whether an arterial road comes through, north and east
        away = [0.0 if road else rng.uniform(-0.2, 0.2) * city.block for road in roads]
        kind = "traffic_light" if all(roads) else "priority" if any(roads) else "right_before_left"
        x, y = (city.block * k + off for k, off in zip((i, j), away))
        nodes.append(f'<node id="{i}.{j}" x="{x:.1f}" y="{y:.1f}" type="{kind}"/>')
    for i, j in corners:
        for k, m in ((i + 1, j), (i, j + 1)):
            arterial = (j if k > i else i) % city.every == 0
            if max(k, m) > city.blocks or (not arterial and rng.random() < city.missing):
                continue
            lanes, speed = (2, 13.89) if arterial else (1, 8.33)  # metres a second: 50 and 30 km/h
            for a, b in ((f"{i}.{j}", f"{k}.{m}"), (f"{k}.{m}", f"{i}.{j}")):
                edges.append(f'<edge id="{a}-{b}" from="{a}" to="{b}" numLanes="{lanes}" speed="{speed}"')
                edges[-1] += f' priority="{lanes}"/>'
    return "\n".join([*nodes, "</nodes>\n"]), "\n".join([*edges, "</edges>\n"])


def demand(folder: Path, home: Path, city: City, seed: int) -> None:
    """Draw the trips of the vans and the cars with SUMO's randomTrips.py."""
    last = city.warm_up + city.seconds
    legs = 2 + round(8 * last / (0.66 * city.blocks * city.block))  # of 0.66 sides on average; more than at 8 m/s
    shared = f"-n net.xml --length --random-depart --no-validate --min-distance {city.every * city.block}".split()
    vans_an_hour = city.vans * 3600 / city.warm_up
    for name, rate, until, stops in (("van", vans_an_hour, city.warm_up, legs), ("car", city.cars, last, 1)):
        own = ("--insertion-rate", rate, "-b", 0, "-e", until, "-i", stops, "--prefix", name[0], "-o", f"{name}.xml")
        call(home, folder, "randomTrips.py", *shared, *own, "--seed", seed + stops)


def simulate(folder: Path, home: Path, city: City, seed: int) -> None:
    """Simulate the traffic; write fcd.xml.gz, and the statistics trips.xml and steps.xml, into the folder."""
    options = {
        "net-file": "net.xml", "route-files": "van.xml,car.xml", "seed": seed, "no-step-log": True, "no-warnings": True,
        "begin": 0, "end": city.warm_up + city.seconds + 1, "ignore-junction-blocker": 60,
        "device.rerouting.probability": 1, "device.rerouting.adaptation-interval": 30, "routing-algorithm": "astar",
        "fcd-output": "stdout", "fcd-output.attributes": "x,y", "device.fcd.period": city.step,
        "device.fcd.begin": city.warm_up, "summary-output": "steps.xml", "tripinfo-output": "trips.xml",
        "tripinfo-output.write-unfinished": True,
    }  # fmt: skip
    with gzip.GzipFile(folder / "fcd.xml.gz", "wb", compresslevel=6, mtime=0) as packed:
        call(home, folder, "sumo", *(f"--{key}={str(value).lower()}" for key, value in options.items()), into=packed)


def told(folder: Path, city: City) -> dict[str, Any]:
    """Return what happened in the traffic, for the .json file: vehicles, metres a second, halts, minutes."""
    time_of, running, speed, teleports = numbers_of(
        folder / "steps.xml", "step", "time", "running", "meanSpeed", "teleports"
    )
    of_trace = [k for k, at in enumerate(time_of) if at >= city.warm_up]
    present = [running[k] for k in of_trace]
    halts, metres, seconds = numbers_of(folder / "trips.xml", "tripinfo", "waitingCount", "routeLength", "duration")
    return {
        "vehicles": len(halts),
        "present": {"mean": round(sum(present) / len(present)), "least": int(min(present)), "most": int(max(present))},
        "mean_speed": round(sum(n * speed[k] for n, k in zip(present, of_trace)) / sum(present), 2),
        "halts_a_kilometre": round(1000 * sum(halts) / sum(metres), 2),
        "minutes_a_vehicle": round(sum(seconds) / len(seconds) / 60, 1),
        "teleports": int(teleports[-1]),  # vehicles that stood for five minutes and were moved on
    }


def make(city: City, seed: int, out: Path, home: Path) -> dict[str, Any]:
    """Make the files of a city; return what is in its .json file.

    Raises:
      UserError: if a tool of SUMO fails.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=out) as name:
        folder = Path(name)
        nodes, edges = streets(city, seed)
        (folder / "city.nod.xml").write_text(nodes)
        (folder / "city.edg.xml").write_text(edges)
        drawn = ("-n", "city.nod.xml", "-e", "city.edg.xml", "-o", "net.xml", "--seed", seed, "--no-warnings")
        roads = range(0, city.blocks + 1, city.every)
        later = ",".join(f"{i}.{j}" for i in roads for j in roads if (i + j) // city.every % 2)
        call(home, folder, "netconvert", *drawn, "--no-turnarounds.except-deadend", "--tls.half-offset", later)
        demand(folder, home, city, seed)
        total = city.vans + city.cars * (city.warm_up + city.seconds) // 3600
        print(f"simulating {total:,} vehicles, which takes minutes for a large city ...", flush=True)
        simulate(folder, home, city, seed)
        with gzip.GzipFile(folder / "net.xml.gz", "wb", mtime=0) as packed:
            packed.write(only_streets((folder / "net.xml").read_text()).encode())
        made = {"city": asdict(city), "seed": seed, "traffic": told(folder, city)}
        for kind in ("fcd", "net"):
            os.replace(folder / f"{kind}.xml.gz", out / f"{city.name}.{kind}.xml.gz")
    return made | {"seconds": round(time.perf_counter() - began)}


def main() -> int:
    """Make the files unless they are there, and print what is in the traffic."""
    city = SIZES[_SIZE.value]
    folder = HERE if _SIZE.value == "small" else Path(os.environ.get("MDFL_DATA_DIR", "")).expanduser() / "city"
    out = Path(_OUT.value).expanduser() if _OUT.value else folder
    about, trace = out / f"{city.name}.json", out / f"{city.name}.fcd.xml.gz"
    made = json.loads(about.read_text()) if about.is_file() else {}
    if trace.is_file() and (made.get("city"), made.get("seed")) == (asdict(city), _SEED.value):
        print(f"{trace} is there already")
    else:
        home = sumo_home()
        try:
            out.mkdir(parents=True, exist_ok=True)
            made = make(city, _SEED.value, out, home)
            about.write_text(json.dumps(made, indent=2) + "\n")
        except OSError as error:
            raise UserError(f"{str(out)!r} cannot be written ({error.strerror}); --out names another folder") from error
    traffic, present = made["traffic"], made["traffic"]["present"]
    print(f"{trace}: {trace.stat().st_size / 1e6:.3g} MB, made in {made['seconds']} s")
    print(f"{traffic['vehicles']:,} vehicles, of which {present['least']:,} to {present['most']:,} are in the city")
    print(f"mean speed {traffic['mean_speed']} m/s; {traffic['halts_a_kilometre']} halts a kilometre")
    print(f"{traffic['minutes_a_vehicle']} minutes a vehicle; {traffic['teleports']} were moved on after a long jam")
    return 0


if __name__ == "__main__":
    common.run_command(main)
