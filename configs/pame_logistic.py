"""PaME and its rivals on logistic regression, compared by the bits that they send (the paper's figures 8 to 10).

Command:   python -m launch.sweep --config=configs/pame_logistic.py:ARGUMENT

| argument        | study                                                                                    |
|-----------------|------------------------------------------------------------------------------------------|
| m32, m64, m128  | 32, 64 or 128 nodes, n = 1,000; every algorithm with every step size of the grid          |
| small           | 8 nodes, n = 50; takes seconds                                                            |

Fairness: all algorithms use the same data, graph, seeds and number of rounds. Each uses its best step size of one
common grid, chosen by the loss on validation samples. Participation and period are standardised (the paper's V-D):
every algorithm communicates with 0.2 of its neighbours, every 5 rounds on average. In PaME each node draws its period
from 3 to 7 (table II). For the other algorithms the period is 5 for all nodes, because their weights must be symmetric.
Between two communications they take local steps; anq_nids has no rule for local steps, so it waits. Algorithms that
keep copies of their neighbours' models (beer, anq_nids) pick their neighbours once, at the start. The paper gives
neither the number of samples of a node (here 100) nor the density of the graph (here 0.3 of all links).

Expected:  docs/pame.md.
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

ALGORITHMS = "pame,dpsgd,dfedsam,beer,anq_nids"
GRID = "0.03,0.1,0.3,1,3,10"


def get_config(argument: str = "m32") -> ConfigDict:
    if argument not in ("m32", "m64", "m128", "small"):
        raise ValueError(f"argument {argument!r}; known: m32, m64, m128, small")
    config = default_config()
    config.name = f"pame_logistic_{argument}"
    config.title = "PaME and its rivals on logistic regression"
    config.sweep = f"algorithm.name={ALGORITHMS}; algorithm.lr={GRID}"
    config.select = "algorithm.lr"
    config.x_axis = "bits"
    config.seeds = 3
    config.rounds = 600
    config.eval_every = 10
    config.target = 0.75

    config.data.name = "synthetic:logistic"
    config.data.dimension = 1000
    config.data.samples_per_client = 100
    config.data.l2 = 1e-3

    config.network.graph = "erdos_renyi"
    config.network.num_clients = 8 if argument == "small" else int(argument[1:])
    config.graph.probability = 0.3
    config.algorithm.participation = 0.2
    config.algorithm.period_min = 3
    config.algorithm.period_max = 7
    config.engine.record_positions = False
    config.engine.runs_per_batch = 2  # a batch ends only when all of its runs have stopped
    if argument == "small":
        config.seeds = 2
        config.rounds = 200
        config.data.dimension = 50
        config.graph.probability = 0.5
    return config
