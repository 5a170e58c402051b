"""CIFAR-10 with residual networks, for accelerators: the papers' deep studies with extras, and a small study.

Command:   MDFL_DATA_DIR=DIR mdfl sweep cifar_resnet:ARGUMENT
           DIR holds cifar10.npz (x_train, y_train, x_test, y_test), or the set is fetched (mdfl data --get=cifar10).

| argument         | study                                                                          | runs x rounds |
|------------------|--------------------------------------------------------------------------------|---------------|
| small            | narrow ResNet-20, 6 clients, static, random and DCM: minutes on two CPU cores  | 6 x 400       |
| madfl            | MADFL figure 7(a), `madfl.py:f7a`: ResNet-18, 20 clients, four patterns        | 24 x 2,000    |
| dadfl            | DADFL figure 5, `dadfl.py:f5`: ResNet-50, Rm 5 and infinity, four patterns     | 80 x 600      |
| pame             | PaME figure 12, `pame.py:f12`: ResNet-20, 32 nodes, IID and Dirichlet 0.6, 0.3 | 189 x 2,000   |
| fedmobile        | FedMobile figure 4(c), `fedmobile.py:f4_cifar`: ResNet-9, fixed meetings       | 12 x 500      |
| fedmobile_random | as fedmobile, with random meetings                                             | 12 x 500      |

Extras that the papers do not mention: the full studies crop and flip the training images, and all of them except PaME
compute products in bfloat16. Without any extra, as the papers have them, they are the presets that the table names, as
in --config=configs/madfl.py:f7a; no flag is needed for this, and the presets take --scale=small too.

The papers MADFL and DADFL start from ImageNet weights: add --config.model.pretrained=FILE (docs/data.md). Without this
flag the models start from random weights.
PaME does not give the number of nodes, the batch size, the density of the graph or the number of rounds; we use 32, 64,
half of all links and 2,000. FedMobile's table 4 shows no normalisation; we use group normalisation.

Expected:  DADFL figure 5: DAM is 5 points and DCM 8 points above random movement; with Rm = 5 they are 4 and 5 points
           above. MADFL: DCM and DAM are above random movement. FedMobile needs fewer slots to 60 % than ASYNC.
Measured:  small, two seeds: static 36.1 %, random movement 43.3 %, DCM 47.5 %, in six minutes on two CPU cores
           (Intel Xeon). The other studies have not been run in full.
"""

from ml_collections import ConfigDict

from configs import dadfl, fedmobile, madfl, pame
from mdfl_jax.config import default_config


def _with_extras(config: ConfigDict) -> ConfigDict:
    """Add crops and flips of the training images, and products in bfloat16, to a study of a paper."""
    config.data.crop, config.data.flip = 4, True
    config.engine.precision = "bfloat16"
    return config


def _dadfl() -> ConfigDict:
    """DADFL figure 5, `dadfl.py:f5`, with the extras. In bfloat16, activations fit a device of 16 GiB as they are."""
    config = _with_extras(dadfl.get_config("f5"))
    config.engine.remat = False
    return config


def _pame() -> ConfigDict:
    """PaME figure 12, `pame.py:f12`, with crops and flips; products stay in float32."""
    config = pame.get_config("f12")
    config.data.crop, config.data.flip = 4, True
    return config


def _fedmobile(pattern: str) -> ConfigDict:
    """FedMobile table 3, `fedmobile.py:f4_cifar`, with the two variants and the extras, under one meeting pattern."""
    config = _with_extras(fedmobile.get_config("f4_cifar"))
    config.sweep = "algorithm.name=async_fl,fedmobile_u,fedmobile_d,fedmobile"
    config.server.pattern = pattern
    return config


def _small() -> ConfigDict:
    config = default_config()
    config.title = "Mobility on {data}, in small"
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
        "madfl": lambda: _with_extras(madfl.get_config("f7a")),
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
