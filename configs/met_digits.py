"""Distribution-aware movement without an oracle: by what a client has met, against random movement and the oracle.

Command:   python -m launch.sweep --config=configs/met_digits.py
           python -m launch.sweep --config=configs/met_digits.py:warm_up
Expected:  random movement 87 %, DAM 89 %, DCM 91 %, dam_met 90 %, dcm_met 89 % (intervals: docs/without_oracle.md).
Measured:  113 s of rounds and 18 s of compiling, on two CPU cores shared with other work.
"""

from ml_collections import ConfigDict

from configs import digits


def get_config(study: str = "") -> ConfigDict:
    config = digits.get_config()
    config.seeds = 8
    config.name = "met_digits"
    config.title = "Distribution-aware movement without an oracle"
    config.sweep = "network.mobility=random_movement,dam,dcm,dam_met,dcm_met"
    config.baseline = "network.mobility=random_movement"
    if study == "warm_up":
        config.name = "met_digits_warm_up"
        config.sweep = "network.mobility=dam_met,dcm_met; motion.warm_up_met=0.25,0.5,1"
        config.baseline = "motion.warm_up_met=0.5"
    return config
