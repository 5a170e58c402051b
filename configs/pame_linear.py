"""PaME alone on linear regression: what its numbers do (the paper's figures 2 to 7).

Command:   python -m launch.sweep --config=configs/pame_linear.py:ARGUMENT

| argument      | figures | study                                                                                   |
|---------------|---------|-----------------------------------------------------------------------------------------|
| transmission  | 2a, 3   | share of the coordinates in a message s/n, m = 32, 64, 128                               |
| participation | 2b, 4   | share of the neighbours that a communication takes, nu                                   |
| period        | 2c, 5   | one period of communication for all                                                      |
| period_drawn  | 2d, 6   | periods drawn per node, around the same medians                                          |
| connectivity  | 7       | share of the possible links, and s/n, at m = 64 and nu = 0.4                             |

`ARGUMENT_small` (as transmission_small) is the same with 8 and 16 nodes and 100 coordinates: seconds.

The paper gives neither n, nor the samples of a node, nor the graph's density for these figures. Here n = 300 with 600
samples a node, and half of all links: with fewer samples than coordinates its sigma^0 = 1 diverges, since a node's step
1 / (sigma m_i) is then too long for its own Hessian. The run stops where the paper's rule says.

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
        config.graph.allow_disconnected = True  # at a density of 0.1 some are
        config.algorithm.participation = 0.4
    config.engine.record_positions = False
    config.engine.runs_per_batch = 2  # of runs together none ends before the last
    if argument.endswith("_small"):
        config.sweep = config.sweep.replace("32,64,128", "8,16")
        config.seeds = 2
        config.rounds = 200
        config.data.dimension = 100
        config.data.samples_per_client = 1000
        if study == "connectivity":
            config.network.num_clients = 16
    return config
