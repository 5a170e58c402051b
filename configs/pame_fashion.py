"""PaME and its rivals on Fashion-MNIST with few classes per node (the paper's figure 11).

Command:   MDFL_DATA_DIR=DIR python -m launch.sweep --config=configs/pame_fashion.py:ARGUMENT
           DIR holds fashion_mnist.npz (x_train, y_train, x_test, y_test).

| argument    | study                                                                       |
|-------------|-----------------------------------------------------------------------------|
| c1, c7, c10 | 1, 7 or 10 classes per node; every algorithm with every step size of the grid |
| c1_small    | (also c7_small, c10_small) 8 nodes, few images and rounds: minutes on two CPU cores |

Participation, transmission, periods and penalty are those that the paper's table II gives for neural networks. The
paper does not give the number of nodes, the CNN, the batch size or the density of the graph. We use 32 nodes, a CNN
with two convolutions, batches of 32 and half of all links.

Expected:  the study has not been run at full size yet (see benchmarks/README.md, to run on a GPU).
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

ARGUMENTS = tuple(f"c{c}{small}" for c in (1, 7, 10) for small in ("", "_small"))


def get_config(argument: str = "c1_small") -> ConfigDict:
    if argument not in ARGUMENTS:
        raise ValueError(f"argument {argument!r}; known: {', '.join(ARGUMENTS)}")
    config = default_config()
    config.name = f"pame_fashion_{argument}"
    config.title = "PaME and its rivals on Fashion-MNIST"
    config.sweep = "algorithm.name=pame,dpsgd,dfedsam,beer,anq_nids; algorithm.lr=0.02,0.1,0.5"
    config.select = "algorithm.lr"
    config.seeds = 3
    config.rounds = 1000
    config.eval_every = 50
    config.target = 0.7

    config.data.name = "fashion_mnist"
    config.data.partition = "classes_per_client"
    config.data.classes_per_client = int(argument[1:].removesuffix("_small"))
    config.data.validation = 1000
    config.model.name = "cnn"
    config.model.widths = (16, 32)
    config.model.kernel = 5

    config.network.graph = "erdos_renyi"
    config.network.num_clients = 32
    config.graph.probability = 0.5
    config.algorithm.batch_size = 32
    config.algorithm.participation = 0.5
    config.algorithm.transmission = 0.1
    config.algorithm.period_min = 5
    config.algorithm.period_max = 10
    config.algorithm.penalty_growth = 1.001
    config.engine.record_positions = False
    if argument.endswith("_small"):
        config.seeds = 2
        config.rounds = 200
        config.eval_every = 20
        config.network.num_clients = 8
        config.data.limit_train = 5000
        config.data.limit_test = 1000
        config.data.validation = 500
        config.model.widths = (8, 16)
    return config
