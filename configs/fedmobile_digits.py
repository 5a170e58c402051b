"""FedMobile and its rivals on handwritten digits: clients meet a server every 50 slots and relay in between.

Command:   mdfl sweep fedmobile_digits
           mdfl sweep fedmobile_digits:random       (gaps of 30 to 50 slots)
           mdfl sweep fedmobile_digits:exponential  (mean 30, at most 80)
Expected:  accuracy of the server's model (mean_model_accuracy), three seeds: async_fl 79 %, fedmobile 81 %,
           virtual_upload 81 %, virtual_download 62 %.
Measured:  the rounds took 121 s on two CPU cores that ran much other work at the same time.
"""

from ml_collections import ConfigDict

from mdfl_jax.config import default_config


def get_config(pattern: str = "") -> ConfigDict:
    config = default_config()
    config.name = f"fedmobile_digits_{pattern}" if pattern else "fedmobile_digits"
    config.title = "A server met now and then, and relays in between"
    config.sweep = "algorithm.name=async_fl,fedmobile,virtual_upload,virtual_download"
    config.baseline = "algorithm.name=async_fl"
    config.seeds = 3
    config.rounds = 250
    config.eval_every = 10
    config.target = 0.7
    config.judged = "global"

    config.data.name = "digits"
    config.data.partition = "dirichlet"
    config.data.alpha = 0.3

    config.model.name = "cnn"
    config.model.widths = (8, 8)
    config.model.hidden = 32

    config.network.num_clients = 50
    config.network.num_mobile = 0
    config.server.pattern = pattern or "fixed"
    config.server.pairs = 0.5

    config.algorithm.lr = 0.1
    config.algorithm.lr_schedule = "exponential"  # 0.1 x 0.99^t, and at least 0.001
    config.algorithm.lr_decay = 0.99
    config.algorithm.lr_final = 0.01
    config.algorithm.upload_from, config.algorithm.upload_until = 10, 40
    config.algorithm.download_from, config.algorithm.download_until = 5, 25
    return config
