"""The claim of BALANCE's abstract (Fang et al. 2024): it does better than other rules under attacks.

Command:   mdfl sweep balance:claim --scale=small
           The data folder holds mnist.npz (docs/data.md).

| item  | study                                                                       | runs x rounds |
|-------|-----------------------------------------------------------------------------|---------------|
| claim | five rules, without an attack and under three, 4 of 20 clients attack         | 60 x 500      |

The numbers of the paper's tables were not at hand, so that the setting is ours: a random regular graph of degree 10,
labels of Dirichlet 1, batches of 32. `small` has a linear model, fewer images, and 100 rounds.

Expected:  `python -m benchmarks.papers --page=papers`, the paper's claims beside our figures.
"""

from ml_collections import ConfigDict

from configs import madfl
from mdfl_jax.config.presets import Preset, preset_config

RULES = ("balance", "mean", "median", "ubar", "self_centred_clipping")
ATTACKS = ("label_flip", "gaussian", "sign_flip")


def _claim() -> ConfigDict:
    config = madfl.mnist()
    config.title = "BALANCE: rules under attacks, {data}"
    config.baseline = "algorithm.aggregation=balance"
    config.sweep = f"algorithm.aggregation={','.join(RULES)}; attack.name=,{','.join(ATTACKS)}"
    config.seeds, config.rounds, config.eval_every = 3, 500, 50
    config.data.alpha = 1.0
    config.network.graph, config.graph.degree = "random_regular", 10
    config.algorithm.lr, config.algorithm.batch_size = 0.03, 32
    config.attack.number = 4
    return config


SMALL = {"model.name": "linear", "data.limit_train": 2000, "data.limit_test": 500, "rounds": 100}
PRESETS = {"claim": Preset(_claim, SMALL)}


def get_config(argument: str = "claim") -> ConfigDict:
    return preset_config("balance", PRESETS, argument)
