"""Vehicles learn handwritten digits: a recorded trace compared with parked vehicles and a Manhattan model.

Command:   mdfl sweep trace_digits
Expected:  the trace 55 %, Manhattan 51 %, parked 41 % (docs/movement.md has the intervals).
Measured:  the rounds took 51 s on two CPU cores that ran other work at the same time.

This project generated the trace, in SUMO's format (configs/data/make_trace.py). 16 vehicles stay in one of four
quarters each, and four buses drive between the quarters. Eight of the 16 leave the town for a while and are absent
during that time. --config.trace.file=FILE uses another trace.
"""

import os
from pathlib import Path

from ml_collections import ConfigDict

from configs import digits

TOWN = Path(__file__).parent / "data" / "town.fcd.xml.gz"


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "trace_digits"
    config.title = "Vehicles of a trace learn {data}"
    config.sweep = "network.mobility+network.world=static+trace,manhattan+plane,trace+trace"
    config.baseline = "network.mobility=trace"
    config.seeds = 4
    config.rounds = 400

    config.trace.file = os.path.relpath(TOWN)
    config.trace.gaps = "absent"

    config.network.num_mobile, config.network.radius = 20, 100.0
    config.motion.dt = 2.0  # seconds: the sampling interval of the trace
    config.motion.width, config.motion.height, config.motion.block = 1000.0, 800.0, 100.0
    config.motion.speed_min = config.motion.speed_max = 4.8  # metres a second: the mean speed of the trace
    return config
