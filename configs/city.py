"""Five thousand vehicles of a city learn handwritten digits: an hour of SUMO's traffic, with lights and queues.

Command:   python configs/data/make_city.py       (once: makes the traffic in the data directory, needs the extra sumo)
           MDFL_DATA_DIR=DIR mdfl sweep city
           MDFL_DATA_DIR=DIR mdfl sweep city:roadside   (FedMobile, road-side units)
           mdfl sweep city:small             (a hundred vehicles, needs nothing)
           mdfl sweep city:small_roadside

Expected:  85 % with one seed. small: driving vehicles 80 %, the same ones parked 44 %.
Measured:  10 minutes on two CPU cores (Intel Xeon); the traffic 8 minutes, once. small: 9 s of rounds.

The clients are the 5,000 vehicles that are in the city longest of about 8,500. A vehicle is absent before and after its
trip. Two vehicles within 50 m exchange models. Vehicles that start near one another hold like digits.
"""

import os
from pathlib import Path

from ml_collections import ConfigDict

from mdfl_jax.config import default_config

SMALL = Path(__file__).parent / "data"


def _common(folder: Path, name: str) -> ConfigDict:
    config = default_config()
    config.data.partition = "by_place"
    config.data.place_spread = 0.2

    config.network.mobility = "trace"
    config.network.radius = 50.0  # metres
    config.trace.file = os.path.relpath(folder / f"{name}.fcd.xml.gz")
    config.trace.streets = os.path.relpath(folder / f"{name}.net.xml.gz")
    config.trace.made_by = f"python {os.path.relpath(SMALL / 'make_city.py')}"
    config.trace.gaps = "absent"
    config.motion.dt = 6.0

    config.algorithm.name = "dpsgd"
    config.algorithm.lr = 0.1
    config.algorithm.batch_size = 8
    return config


def _city() -> ConfigDict:
    config = _common(Path(os.environ.get("MDFL_DATA_DIR", "")).expanduser() / "city", "city")
    config.title = "Five thousand vehicles of a city learn {data}"
    config.rounds, config.eval_every, config.seeds = 600, 20, 1
    config.target = 0.7
    config.eval_clients, config.eval_samples = 500, 1000

    config.data.name = "mnist"
    config.data.limit_test = 2000  # all clients are tested on them before the first round and after the last
    config.model.name, config.model.widths = "mlp", (16,)
    config.network.num_clients = config.network.num_mobile = 5000
    return config


def _small() -> ConfigDict:
    config = _common(SMALL, "city_small")
    config.title = "A hundred vehicles of a city learn {data}"
    config.rounds, config.eval_every, config.seeds = 60, 10, 2
    config.target = 0.6
    config.data.name = "digits"
    config.model.name = "linear"
    config.network.num_clients = config.network.num_mobile = 100
    return config


def _with_units(config: ConfigDict, units: list[tuple[int, int]]) -> ConfigDict:
    """FedMobile: the vehicles meet a server at the units, which stand at crossings of arterial roads."""
    config.title = config.title.replace("learn", "meet road-side units and learn")
    config.sweep = "algorithm.name=async_fl,fedmobile"
    config.baseline = "algorithm.name=async_fl"
    config.judged = "global"
    config.eval_clients = config.eval_samples = 0  # one model is evaluated
    config.server.pattern = "roadside"
    config.server.units = "; ".join(f"{x},{y}" for x, y in units)
    config.server.unit_range = 100.0
    config.algorithm.upload_from, config.algorithm.upload_until = 10, 40
    config.algorithm.download_from, config.algorithm.download_until = 5, 25
    return config


def get_config(argument: str = "city") -> ConfigDict:
    sizes = {"city": (_city, (600, 1800, 3600, 4800)), "small": (_small, (600,))}
    names = {"city": "city", "roadside": "city", "small": "small", "small_roadside": "small"}
    if argument not in names:
        raise ValueError(f"argument {argument!r}; known: {', '.join(names)}")
    make, places = sizes[names[argument]]
    config = make()
    if argument.endswith("roadside"):
        config = _with_units(config, [(x, y) for x in places for y in places])
    elif argument == "small":
        config.network.world = "trace"
        config.sweep = "network.mobility=static,trace"
        config.baseline = "network.mobility=static"
    config.name = "city" if argument == "city" else f"city_{argument}"
    return config
