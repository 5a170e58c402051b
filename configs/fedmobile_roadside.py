"""Vehicles in the streets of Manhattan meet a server at four road-side units, and each other on the way.

Command:   python -m launch.sweep --config=configs/fedmobile_roadside.py
           python -m launch.sweep --config=configs/fedmobile_roadside.py:town    (vehicles of a SUMO trace)
Expected:  the server's model (mean_model_accuracy): async_fl 68 %, fedmobile 71 %, fedmobile_auto 75 %, three seeds;
           5 to 7 of the 50 vehicles never meet a unit.
Measured:  57 s of rounds on two CPU cores shared with much other work.
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
    config.network.radius = 50.0  # metres between two vehicles that talk
    config.motion.width = config.motion.height = 1000.0
    config.motion.block = 100.0
    config.motion.dt = 2.0
    config.motion.speed_min, config.motion.speed_max = 8.0, 14.0  # metres a second

    config.server.pattern = "roadside"
    config.server.units = "300,300; 700,300; 300,700; 700,700"
    config.server.unit_range = 80.0
    if argument == "town":  # the vehicles of a SUMO trace, 20 of them, who come and go
        config.network.mobility = "trace"
        config.network.num_clients = config.network.num_mobile = 20
        config.network.radius = 100.0
        config.trace.file = os.path.relpath(TOWN)
        config.trace.gaps = "absent"
        config.server.units = "200,100; 800,100; 200,700"
    return config
