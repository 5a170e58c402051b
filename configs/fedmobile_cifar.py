"""FedMobile on CIFAR-10 with the paper's ResNet-9 (its table 3 and figure 7); for an accelerator.

Command:   MDFL_DATA_DIR=DIR python -m launch.sweep --config=configs/fedmobile_cifar.py:ARGUMENT
           DIR holds cifar10.npz (x_train, y_train, x_test, y_test); ARGUMENT is fixed or random.

Numbers are those of the paper's table 3: 50 clients of 600 images on average (Dirichlet 0.3), batch 128, learning rate
0.01, 500 slots.

Expected:  not yet run (benchmarks/README.md, to run on a GPU).
"""

from ml_collections import ConfigDict

from configs import fedmobile_fmnist


def get_config(argument: str = "fixed") -> ConfigDict:
    if argument not in ("fixed", "random"):
        raise ValueError(f"argument {argument!r}; known: fixed, random")
    config = fedmobile_fmnist.get_config(argument)
    config.name = f"fedmobile_cifar_{argument}"
    config.title = "FedMobile on CIFAR-10"
    config.rounds = 500
    config.eval_every = 10
    config.target = 0.6
    config.data.name = "cifar10"
    config.data.limit_train = 30_000
    config.model.name = "resnet9"
    config.model.norm = "group"
    config.algorithm.lr = 0.01
    config.algorithm.lr_schedule = "constant"
    return config
