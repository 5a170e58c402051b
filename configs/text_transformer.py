"""A small transformer learns English text, character by character, from moving clients.

Command:   mdfl sweep text_transformer
Expected:  static 31 %, random movement 36 % of the characters (docs/configs.md has the intervals).
Measured:  102 s of processor time (Intel Xeon); 222 s on two cores that much other work shared.
"""

from ml_collections import ConfigDict

from mdfl_jax.config import default_config


def get_config() -> ConfigDict:
    config = default_config()
    config.name = "text_transformer"
    config.title = "A transformer of moving clients learns English text"
    config.sweep = "network.mobility=static,random_movement"
    config.baseline = "network.mobility=random_movement"
    config.seeds = 3
    config.rounds = 300
    config.eval_every = 20
    config.target = 0.35

    config.data.name = "python_topics"
    config.data.partition = "by_owner"
    config.data.limit_test = 100

    config.model.name = "transformer"
    config.model.width = 32
    config.model.layers = 1
    config.model.heads = 2

    config.network.num_clients = 12
    config.network.num_mobile = 4
    config.network.grid_size = 12
    config.network.radius = 1.5
    config.network.max_step = 4.0
    config.network.mixing = "metropolis_hastings"

    config.algorithm.name = "dpsgd"
    config.algorithm.optimizer = "adam"
    config.algorithm.lr = 0.01
    config.algorithm.batch_size = 8
    return config
