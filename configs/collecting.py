"""Data that come on the way: clients collect digits where they are, keep some of them, and what is where may change.

Command:   mdfl sweep collecting
Expected:  without a drift static 47 %, random movement 93 %, DCM 93 %; with rotation 28, 37 and 39 % if all is
           kept, and 36, 57 and 61 % if 20 rounds are (docs/collecting.md).
Measured:  seven minutes on two CPU cores that were shared with other programs; 207 s of processor time.

The grid has 3 x 3 regions, each with its own share of every label. In each round a client draws 4 digits of the region
in which it stands, and it keeps those of its last 20 or 400 rounds (all). With the drift ``places`` the digits of a
region move to the next one every 100 rounds, with ``rotation`` all digits, and the test digits, make a quarter turn.
"""

from ml_collections import ConfigDict

from configs import digits


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "collecting"
    config.title = "Clients collect {data} where they are"
    config.sweep = (
        "network.mobility=static,random_movement,dcm; "
        "data.window+data.drift=400+,20+,400+places,20+places,400+rotation,20+rotation"
    )
    config.seeds = 3
    config.metrics = "accuracy_here"

    config.data.collect = 4
    config.data.regions = 3
    config.data.alpha = 0.1
    config.data.drift_every = 100

    config.algorithm.batch_size = 16
    return config
