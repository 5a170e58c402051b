"""The demo with another model: an LSTM reads a digit row by row.

Command:   mdfl sweep digits_lstm
Expected:  static 39 %, random movement 73 %, DCM 79 % (docs/configs.md has the intervals).
Measured:  110 s of processor time (Intel Xeon); 449 s on two cores that much other work shared.
"""

from ml_collections import ConfigDict

from configs import digits


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "digits_lstm"
    config.title = "An LSTM learns {data} row by row"
    config.sweep = "network.mobility=static,random_movement,dcm"
    config.seeds = 5
    config.rounds = 300
    config.target = 0.7

    config.model.name = "lstm"
    config.model.width = 32

    config.algorithm.lr = 0.5
    return config
