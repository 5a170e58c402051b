"""The study of ClippedGossip's figure 6 (He, Karimireddy, Jaggi): a ring of five honest clients among attackers.

Command:   mdfl sweep clipped_gossip:f6_16 --scale=small
           The data folder holds mnist.npz (docs/data.md).

| item         | study                                                                   | runs x rounds |
|--------------|-------------------------------------------------------------------------|---------------|
| f6_16, f6_15 | figure 6: four rules under two attacks, without and with a majority     | 24 x 900      |

Each honest client has two attackers of its own (`data/ring_15.txt`). With its own model, three of five models are
honest: a majority. Without it, the first client has a third attacker (`data/ring_16.txt`). The numbers are those of the
authors' code (epfml/byzantine-robust-decentralized-optimizer, `honest_majority`): batches of 32, momentum
0.9, clipping at 0.1, eight steps of the geometric median, UBAR with 0.4 and 0.5, dissensus with epsilon 1.5, IID data.
Its trimmed mean cuts two of five or six values on each side, the client's own among them: that is the median. The code
runs one seed, and here are three. `small` has a linear model, fewer images, and
120 rounds.

Expected:  `python -m benchmarks.papers --page=papers`, the paper's figures beside ours.
"""

from functools import partial
from pathlib import Path

from ml_collections import ConfigDict

from configs import madfl
from mdfl_jax.config.presets import Preset, preset_config

HONEST = 5
RULES = ("clipped_gossip", "geometric_median", "median", "ubar")
ATTACKS = ("dissensus", "inner_product")


def _ring(num_clients: int) -> ConfigDict:
    config = madfl.mnist()
    config.title = "ClippedGossip: a ring among attackers, {data}"
    config.baseline = "algorithm.aggregation=clipped_gossip"
    config.sweep = f"algorithm.aggregation={','.join(RULES)}; attack.name={','.join(ATTACKS)}"
    config.seeds, config.rounds, config.eval_every = 3, 900, 100
    config.data.partition = "iid"
    config.network.graph, config.network.num_clients = "file", num_clients
    config.graph.file = str(Path(__file__).parent / "data" / f"ring_{num_clients}.txt")
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.batch_size = 0.01, 0.9, 32
    config.algorithm.clip_radius, config.algorithm.least_distance = 0.1, 0.1
    config.attack.who, config.attack.apart = "listed", 1.5
    config.attack.clients = ",".join(map(str, range(HONEST, num_clients)))
    return config


SMALL = {"model.name": "linear", "data.limit_train": 1600, "data.limit_test": 500, "rounds": 120, "eval_every": 40}
PRESETS = {f"f6_{count}": Preset(partial(_ring, count), SMALL) for count in (16, 15)}


def get_config(argument: str = "f6_16") -> ConfigDict:
    return preset_config("clipped_gossip", PRESETS, argument)
