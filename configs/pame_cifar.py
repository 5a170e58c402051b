"""PaME and its rivals with ResNet-20 on CIFAR-10, IID and by Dirichlet (the paper's figure 12); for an accelerator.

Command:   MDFL_DATA_DIR=DIR python -m launch.sweep --config=configs/pame_cifar.py:ARGUMENT
           DIR holds cifar10.npz (x_train, y_train, x_test, y_test); ARGUMENT is iid, d03, d06, or one of these with
           _small (4 nodes, 400 images, 4 rounds: shows that it runs).

Numbers are those of the paper's table II for networks; it gives neither the number of nodes, nor the batch, nor the
density of the graph, nor the rounds: here 32 nodes, 64, half and 2,000. Groups are normalised instead of batches.

Expected:  not yet run (benchmarks/README.md, to run on a GPU).
"""

from ml_collections import ConfigDict

from configs import pame_fashion

PARTITIONS = {"iid": ("iid", 1.0), "d03": ("dirichlet", 0.3), "d06": ("dirichlet", 0.6)}


def get_config(argument: str = "d03_small") -> ConfigDict:
    name = argument.removesuffix("_small")
    if name not in PARTITIONS:
        raise ValueError(f"argument {argument!r}; known: {', '.join(PARTITIONS)}, each also with _small")
    config = pame_fashion.get_config("c10")
    config.name = f"pame_cifar_{argument}"
    config.title = "PaME and its rivals on CIFAR-10"
    config.rounds = 2000
    config.data.name = "cifar10"
    config.data.partition, config.data.alpha = PARTITIONS[name]
    config.model.name = "resnet20"
    config.model.norm = "group"
    config.algorithm.batch_size = 64
    if argument.endswith("_small"):
        config.seeds = 1
        config.rounds, config.eval_every = 4, 2
        config.network.num_clients = 4
        config.data.limit_train, config.data.limit_test, config.data.validation = 400, 100, 50
        config.algorithm.batch_size = 8
        config.sweep = "algorithm.name=pame,dpsgd; algorithm.lr=0.1,0.5"
    return config
