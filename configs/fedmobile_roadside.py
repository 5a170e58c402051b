"""Vehicles on a Manhattan street grid meet a server at four road-side units, and meet each other on the way.

Command:   mdfl sweep fedmobile_roadside
           mdfl sweep fedmobile_roadside:town    (vehicles of a SUMO trace)
Expected:  accuracy of the server's model (mean_model_accuracy), three seeds: async_fl 68 %, fedmobile 71 %,
           fedmobile_auto 75 %. 5 to 7 of the 50 vehicles never meet a unit.
Measured:  the rounds took 57 s on two CPU cores that ran much other work at the same time.
"""

import os

from ml_collections import ConfigDict

from configs import fedmobile_digits
from configs.trace_digits import TOWN


def get_config(argument: str = "manhattan") -> ConfigDict:
    if argument not in ("manhattan", "town"):
        raise ValueError(f"argument {argument!r}; known: manhattan, town")
    config = fedmobile_digits.get_config()
    config.name = f"fedmobile_roadside_{argument}"
    config.title = "Road-side units, and relays in between"
    config.sweep = "algorithm.name=async_fl,fedmobile,fedmobile_auto"
    config.rounds = 300

    config.network.mobility = "manhattan"
    config.network.num_mobile = config.network.num_clients
    config.network.radius = 50.0  # metres: the range between two vehicles
    config.motion.width = config.motion.height = 1000.0
    config.motion.block = 100.0
    config.motion.dt = 2.0
    config.motion.speed_min, config.motion.speed_max = 8.0, 14.0  # metres a second

    config.server.pattern = "roadside"
    config.server.units = "300,300; 700,300; 300,700; 700,700"
    config.server.unit_range = 80.0
    if argument == "town":  # the trace has 20 vehicles, some of which are absent for a while
        config.network.mobility = "trace"
        config.network.num_clients = config.network.num_mobile = 20
        config.network.radius = 100.0
        config.trace.file = os.path.relpath(TOWN)
        config.trace.gaps = "absent"
        config.server.units = "200,100; 800,100; 200,700"
    return config
