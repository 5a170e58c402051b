"""PaME alone on linear regression: the effect of each of its numbers (the paper's figures 2 to 7).

Command:   python -m launch.sweep --config=configs/pame_linear.py:ARGUMENT

| argument      | figures | study                                                                                   |
|---------------|---------|-----------------------------------------------------------------------------------------|
| transmission  | 2a, 3   | s/n, the share of the coordinates in a message, for m = 32, 64, 128 nodes                |
| participation | 2b, 4   | nu, the share of the neighbours that a node communicates with, for the same m            |
| period        | 2c, 5   | one common communication period for all nodes, for the same m                            |
| period_drawn  | 2d, 6   | every node draws its own period, around the same medians, for the same m                 |
| connectivity  | 7       | the share of the possible links, and s/n, at m = 64 and nu = 0.4                         |

`ARGUMENT_small` (for example transmission_small) is the same study with 8 and 16 nodes and 100 coordinates, or with 16
nodes for connectivity. It takes seconds.

For these figures the paper does not give n, the number of samples of a node or the density of the graph. We use n =
300, 600 samples per node and half of all links. With fewer samples than coordinates, the paper's sigma^0 = 1 diverges,
because a node's step 1 / (sigma m_i) is then too long for its own Hessian. A run stops by the paper's stop rule.

Expected:  docs/pame.md.
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

RATES = "0.1,0.2,0.3,0.4,0.5,0.6"
STUDIES = {
    "transmission": f"network.num_clients=32,64,128; algorithm.transmission={RATES}",
    "participation": f"network.num_clients=32,64,128; algorithm.participation={RATES}",
    "period": "network.num_clients=32,64,128; algorithm.period_min+algorithm.period_max=1+1,2+2,4+4,8+8,16+16",
    "period_drawn": "network.num_clients=32,64,128; algorithm.period_min+algorithm.period_max=1+1,1+3,2+6,4+12,8+24",
    "connectivity": f"graph.probability=0.1,0.2,0.4,0.6,0.8,1; algorithm.transmission={RATES}",
}


def get_config(argument: str = "transmission") -> ConfigDict:
    study = argument.removesuffix("_small")
    if study not in STUDIES:
        raise ValueError(f"argument {argument!r}; known: {', '.join(STUDIES)}, each also with _small")
    config = default_config()
    config.name = f"pame_linear_{argument}"
    config.title = f"PaME on linear regression: {study.replace('_', ' ')}"
    config.sweep = STUDIES[study]
    config.seeds = 3
    config.rounds = 600
    config.eval_every = 20
    config.stop_std = 1e-3
    config.target = 0.9

    config.data.name = "synthetic:linear"
    config.data.dimension = 300
    config.data.samples_per_client = 600

    config.network.graph = "erdos_renyi"
    config.graph.probability = 0.5
    config.algorithm.name = "pame"
    config.algorithm.lr = 1.0  # 1 / sigma^0
    if study == "connectivity":
        config.network.num_clients = 64
        config.graph.allow_disconnected = True  # at a density of 0.1 some drawn graphs are disconnected
        config.algorithm.participation = 0.4
    config.engine.record_positions = False
    config.engine.runs_per_batch = 2  # a batch ends only when all of its runs have stopped
    if argument.endswith("_small"):
        config.sweep = config.sweep.replace("32,64,128", "8,16")
        config.seeds = 2
        config.rounds = 200
        config.data.dimension = 100
        config.data.samples_per_client = 1000
        if study == "connectivity":
            config.network.num_clients = 16
    return config
