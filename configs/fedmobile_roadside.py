"""Vehicles in the streets of Manhattan meet a server at four road-side units, and each other on the way.

Command:   python -m launch.sweep --config=configs/fedmobile_roadside.py
Expected:  the server's model (mean_model_accuracy): async_fl 68 %, fedmobile 71 %, fedmobile_auto 75 %, three seeds;
           5 to 7 of the 50 vehicles never meet a unit.
Measured:  57 s of rounds on two CPU cores shared with much other work.
"""

from ml_collections import ConfigDict

from configs import fedmobile_digits


def get_config() -> ConfigDict:
    config = fedmobile_digits.get_config()
    config.name = "fedmobile_roadside"
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
    return config
