"""Distribution-aware movement without an oracle, compared with random movement and with the oracle rules.

Command:   mdfl sweep met_digits
           mdfl sweep met_digits:warm_up
Expected:  random movement 87 %, DAM 89 %, DCM 91 %, and by those met 90 % and 89 % (intervals: docs/without_oracle.md).
Measured:  113 s of rounds and 18 s of compiling, on two CPU cores that ran other work at the same time.

With motion.knowledge=met a mobile client plans with the label counts of the static clients that it has been near.
DAM and DCM know the label counts of all static clients from the start (the oracle).
"""

from ml_collections import ConfigDict

from configs import digits


def get_config(study: str = "") -> ConfigDict:
    config = digits.get_config()
    config.seeds = 8
    config.name = "met_digits"
    config.title = "Distribution-aware movement without an oracle"
    known = "random_movement+oracle,dam+oracle,dcm+oracle,dam+met,dcm+met"
    config.sweep = f"network.mobility+motion.knowledge={known}"
    config.baseline = "network.mobility=random_movement"
    if study == "warm_up":
        config.name = "met_digits_warm_up"
        config.motion.knowledge = "met"
        config.sweep = "network.mobility=dam,dcm; motion.warm_up_met=0.25,0.5,1"
        config.baseline = "motion.warm_up_met=0.5"
    return config
