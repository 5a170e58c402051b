"""CIFAR-10 with residual networks: the deep studies of MADFL, DADFL, PaME and FedMobile, and a small study.

Command:   MDFL_DATA_DIR=DIR python -m launch.sweep --config=configs/cifar_resnet.py:ARGUMENT
           DIR holds cifar10.npz (x_train, y_train, x_test, y_test); or --config.data.name=tfds:cifar10.

| argument         | study                                                                          | runs x rounds |
|------------------|--------------------------------------------------------------------------------|---------------|
| small            | narrow ResNet-20, 6 clients, static, random and DCM: minutes on two CPU cores  | 6 x 400       |
| madfl            | MADFL figures 7 and 8: ResNet-18, 20 clients, alpha 0.1, four patterns         | 24 x 2,000    |
| dadfl            | DADFL figure 5: ResNet-50, Rm 5 and infinity, four patterns                    | 80 x 600      |
| pame             | PaME figure 12: ResNet-20, 32 nodes, Dirichlet 0.3, 0.6 and IID, five algorithms | 135 x 2,000 |
| fedmobile        | FedMobile table 3 and figure 7: ResNet-9, 50 clients, fixed meetings           | 12 x 500      |
| fedmobile_random | as fedmobile, with random meetings                                             | 12 x 500      |

The papers MADFL and DADFL start from ImageNet weights: add --config.model.pretrained=FILE (docs/data.md). Without this
flag the models start from random weights.
The full studies crop and flip the training images, and all of them except PaME compute products in bfloat16. The papers
mention none of these. --config.data.crop=0 --config.data.flip=false --config.engine.precision=float32 turns them off.
The papers leave some settings open. PaME does not give the number of nodes, the batch size, the density of the graph or
the number of rounds; we use 32, 64, half of all links and 2,000. FedMobile's table 4 shows no normalisation; we use
group normalisation.

Expected:  DADFL figure 5: DAM is 5 points and DCM 8 points above random movement; with Rm = 5 they are 4 and 5 points
           above. MADFL: DCM and DAM are above random movement. FedMobile needs fewer slots to 60 % than ASYNC.
Measured:  small, two seeds: static 36.1 %, random movement 43.3 %, DCM 47.5 %, in six minutes on two CPU cores
           (Intel Xeon). The other studies have not been run in full.
"""

from ml_collections import ConfigDict

from configs import fedmobile_fmnist, mnist_mobility, pame_fashion
from mdfl_jax.experiments import default_config


def _recipe(config: ConfigDict) -> ConfigDict:
    """Set the data and the SGD of MADFL and DADFL on CIFAR-10; products are in bfloat16, for an accelerator."""
    config.title = "Mobility on CIFAR-10"
    config.data.name = "cifar10"
    config.data.crop, config.data.flip = 4, True
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.weight_decay = 0.01, 0.9, 5e-4
    config.algorithm.batch_size = 512
    config.engine.precision = "bfloat16"
    return config


def _madfl() -> ConfigDict:
    """MADFL V-A: 20 clients on 18 x 18, M = 5, Rc = 3, Rm = 5; 6 trials."""
    config = _recipe(mnist_mobility.get_config("madfl_f2"))
    config.sweep = mnist_mobility.PATTERNS
    config.rounds = 2000
    config.data.alpha = 0.1
    config.model.name = "resnet18"
    return config


def _dadfl() -> ConfigDict:
    """DADFL V-A: FedAvg weights, 10 trials, an evaluation every 10 rounds."""
    config = _recipe(mnist_mobility.get_config("dadfl_f2"))
    config.sweep = f"network.max_step=5,inf; {mnist_mobility.PATTERNS}"
    config.rounds = 600
    config.data.alpha = 0.1
    config.model.name = "resnet50"
    config.engine.remat = True
    return config


def _pame() -> ConfigDict:
    """PaME V-C, example 4: table II's numbers for neural networks; each algorithm at its best step size."""
    config = pame_fashion.get_config("c10")
    config.title = "PaME and its rivals on CIFAR-10"
    config.sweep = f"data.partition+data.alpha=dirichlet+0.3,dirichlet+0.6,iid+1.0; {config.sweep}"
    config.rounds = 2000
    config.data.name = "cifar10"
    config.data.crop, config.data.flip = 4, True
    config.model.name = "resnet20"
    config.algorithm.batch_size = 64
    return config


def _fedmobile(pattern: str) -> ConfigDict:
    """FedMobile table 3: 50 clients of 600 images on average (Dirichlet 0.3), batch 128, learning rate 0.01."""
    config = fedmobile_fmnist.get_config(pattern)
    config.title = "FedMobile on CIFAR-10"
    config.rounds = 500
    config.eval_every = 10
    config.target = 0.6
    config.data.name = "cifar10"
    config.data.limit_train = 30_000
    config.data.crop, config.data.flip = 4, True
    config.model.name, config.model.norm = "resnet9", "group"
    config.algorithm.lr = 0.01
    config.algorithm.lr_schedule = "constant"
    config.engine.precision = "bfloat16"
    return config


def _small() -> ConfigDict:
    config = default_config()
    config.title = "Mobility on CIFAR-10, in small"
    config.sweep = "network.mobility=static,random_movement,dcm"
    config.baseline = "network.mobility=random_movement"
    config.seeds, config.rounds, config.eval_every = 2, 400, 80
    config.target = 0.4
    config.data.name = "cifar10"
    config.data.limit_train, config.data.limit_test = 10_000, 1000
    config.data.alpha = 0.5
    config.data.flip = True
    config.model.name, config.model.base_width = "resnet20", 8
    config.network.num_clients, config.network.num_mobile = 6, 2
    config.network.grid_size, config.network.radius, config.network.max_step = 9, 3.0, 5.0
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.weight_decay = 0.1, 0.9, 5e-4
    config.algorithm.lr_schedule, config.algorithm.lr_final = "cosine", 0.02
    config.algorithm.batch_size = 16
    return config


def get_config(argument: str = "small") -> ConfigDict:
    makers = {
        "small": _small,
        "madfl": _madfl,
        "dadfl": _dadfl,
        "pame": _pame,
        "fedmobile": lambda: _fedmobile("fixed"),
        "fedmobile_random": lambda: _fedmobile("random"),
    }
    if argument not in makers:
        raise ValueError(f"argument {argument!r}; it must be one of {', '.join(makers)}")
    config = makers[argument]()
    config.name = f"cifar_resnet_{argument}"
    return config
