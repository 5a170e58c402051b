"""Vehicles of a trace learn handwritten digits: a town's traffic against parked vehicles and a model of streets.

Command:   python -m launch.sweep --config=configs/trace_digits.py
Expected:  the trace 55 %, Manhattan 51 %, parked 41 % (docs/movement.md has the intervals).
Measured:  51 s of rounds on two CPU cores shared with other work.

The trace, in SUMO's format, is of the project's own making (configs/data/make_trace.py): 16 vehicles stay in one of
four quarters, four buses go between them; eight of the 16 are away for a while, and are absent then. Another trace:
--config.trace.file=FILE.
"""

import os
from pathlib import Path

from ml_collections import ConfigDict

from configs import digits

TOWN = Path(__file__).parent / "data" / "town.fcd.xml.gz"


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "trace_digits"
    config.title = "Vehicles of a trace learn handwritten digits"
    config.sweep = "network.mobility=static_trace,manhattan,trace"
    config.baseline = "network.mobility=trace"
    config.seeds = 4
    config.rounds = 400

    config.trace.file = os.path.relpath(TOWN)
    config.trace.gaps = "absent"

    config.network.num_mobile, config.network.radius = 20, 100.0
    config.motion.dt = 2.0  # the trace's samples
    config.motion.width, config.motion.height, config.motion.block = 1000.0, 800.0, 100.0
    config.motion.speed_min = config.motion.speed_max = 4.8  # metres a second, the trace's mean
    return config
