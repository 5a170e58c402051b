"""The studies of MADFL (Jahani et al.), a preset for each table and figure.

Command:   mdfl sweep madfl:ITEM --scale=small
           The data folder holds mnist.npz or cifar10.npz (docs/data.md): MDFL_DATA_DIR=DIR or --config.data.dir=DIR.

| item           | study                                                                              | runs x rounds |
|----------------|------------------------------------------------------------------------------------|---------------|
| t2             | table II: M = 3, alpha 0.05 and 0.1, four movement patterns                         | 48 x 1,000    |
| f2             | figure 2: the same with M = 5                                                       | 48 x 1,000    |
| f3             | figure 3: accuracy over M, Rc and Rm                                                | 234 x 1,000   |
| f4             | figure 4: the radius Rc that reaches 90 % of a fully connected network, M = 3, 5    | 156 x 1,000   |
| f5             | figure 5: the number of mobile clients M that does; Rc = 3, 4, Rm = 5, infinity     | 228 x 1,000   |
| f6             | figure 6: Rc x Rm under random movement, M = 1, 5, 9                                | 216 x 1,000   |
| f7a, f7b       | figure 7(a), (b): CIFAR-10, 20 clients on 18 x 18 and 35 on 27 x 27                 | 24 x 2,000    |
| f7c, f7d       | figure 7(c), (d): MNIST, 35 clients on 27 x 27 and 50 on 35 x 35                    | 24 x 1,000    |
| f8_35, f8_50   | figure 8: figures 4 and 5 in the two larger networks                                | 132 x 1,000   |

The text of the paper does not have the values on the axes of figures 3 to 6 and 8, nor M, Rc and Rm of figures 7(b) to
8, nor alpha of figures 3 to 8, nor the sizes of the CNN. The lists below are ours, around the values that it names; the
larger networks have DADFL's Rc = 5 and Rm = 9; alpha is 0.05 on MNIST and, as in DADFL, 0.1 on CIFAR-10; the CNN has
two 5 x 5 convolutions of 16 and 32 channels and 64 hidden units. Curves of accuracy over a parameter are of the best
accuracy of a run, as in the paper. Each point ties the fields that vary, so that the whole sweep is one compiled
program. `small` has a smaller CNN and 2,000 images (f3 to f8: 1,000, and three seeds); f2 to f8 have 300 rounds with a
learning rate of 0.1, so that the length of all steps is the paper's. Of CIFAR-10, f7a and f7b have 4,000 images, a
CNN of 8 and 16 channels, batches of 32 and 300 rounds.

Expected:  `python -m benchmarks.papers --page=papers`, the paper's figures beside ours.
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from mdfl_jax.config import default_config
from mdfl_jax.config.presets import Preset, preset_config

PATTERNS = "network.mobility=static,random_movement,dam,dcm"
MOVING = "network.mobility=random_movement,dam,dcm"
RIVALS = "network.mobility=random_movement,dcm"
WORLD = "network.num_mobile+network.radius+network.max_step"
M, RC, RM = (1, 3, 5, 7, 9), (1, 2, 3, 4, 5), (1, 3, 5, 7, 9)
FULL = (5, "inf", 5)  # the fully connected network: nobody is out of range


def worlds(settings: Iterable[tuple[object, ...]]) -> str:
    """Return a sweep axis over (M, Rc, Rm), each setting once."""
    return f"{WORLD}=" + ",".join(dict.fromkeys("+".join(map(str, setting)) for setting in settings))


def mnist(num_mobile: int = 5) -> ConfigDict:
    """MADFL V-A: Metropolis-Hastings weights, full-batch gradient descent with lr 0.03, 1,000 rounds, 6 trials."""
    config = default_config()
    config.title = "MADFL: mobility on {data}"
    config.baseline = "network.mobility=random_movement"
    config.seeds, config.rounds, config.eval_every = 6, 1000, 10
    config.data.name = "mnist"
    config.data.partition = "dirichlet"
    config.data.alpha = 0.05
    config.model.name = "cnn"
    config.model.widths, config.model.kernel, config.model.hidden = (16, 32), 5, 64
    config.network.num_clients = 20
    config.network.grid_size = 18
    config.network.radius = 3.0
    config.network.max_step = 5.0
    config.network.num_mobile = num_mobile
    config.network.mixing = "metropolis_hastings"
    config.algorithm.name = "dpsgd"
    config.algorithm.lr = 0.03
    config.algorithm.batch_size = 0
    return config


def larger(config: ConfigDict, num_clients: int) -> ConfigDict:
    """Put 35 clients on 27 x 27 or 50 on 35 x 35, with the radius 5 and the step 9 that DADFL has there."""
    config.network.num_clients = num_clients
    config.network.grid_size = {35: 27, 50: 35}[num_clients]
    config.network.radius, config.network.max_step = 5.0, 9.0
    return config


def cifar(config: ConfigDict) -> ConfigDict:
    """Set the data and the SGD of MADFL and DADFL on CIFAR-10."""
    config.data.name, config.data.alpha = "cifar10", 0.1
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.weight_decay = 0.01, 0.9, 5e-4
    config.algorithm.batch_size = 512
    return config


def _two_alphas(num_mobile: int) -> ConfigDict:
    config = mnist(num_mobile)
    config.sweep = f"data.alpha=0.05,0.1; {PATTERNS}"
    return config


def _swept(axis: str, rules: str) -> ConfigDict:
    config = mnist()
    config.sweep = f"{axis}; {rules}"
    return config


def _figure_3() -> ConfigDict:
    varied = [*((m, 3, 5) for m in M), *((3, rc, 5) for rc in RC), *((3, 3, rm) for rm in RM)]
    return _swept(worlds(varied), MOVING)


def _figure_4() -> ConfigDict:
    return _swept(worlds([*((m, rc, 5) for m in (3, 5) for rc in (1, 2, 3, 4, 5, 6)), FULL]), RIVALS)


def _figure_5() -> ConfigDict:
    moving = ((m, rc, rm) for rc, rm in ((3, 5), (3, "inf"), (4, 5)) for m in (1, 2, 3, 4, 5, 7))
    return _swept(worlds([*moving, FULL]), RIVALS)


def _figure_6() -> ConfigDict:
    return _swept(
        worlds((m, rc, rm) for m in (1, 5, 9) for rc in (1, 3, 5) for rm in (1, 3, 5, 9)),
        "network.mobility=random_movement",
    )


def _larger(num_clients: int) -> ConfigDict:
    config = larger(mnist(), num_clients)
    config.sweep = PATTERNS
    return config


def _figure_8(num_clients: int) -> ConfigDict:
    config = larger(mnist(), num_clients)
    radii = [(5, rc, 9) for rc in (3, 4, 5, 6, 7, 9)]
    config.sweep = f"{worlds([*radii, *((m, 5, 9) for m in (1, 3, 5, 7, 9)), (5, 'inf', 9)])}; {RIVALS}"
    return config


def _cifar(num_clients: int) -> ConfigDict:
    """MADFL V-A: ResNet-18 from ImageNet's weights (--config.model.pretrained=FILE), 2,000 rounds, alpha 0.1."""
    config = cifar(mnist() if num_clients == 20 else larger(mnist(), num_clients))
    config.sweep = PATTERNS
    config.rounds = 2000
    config.model.name = "resnet18"
    return config


IMAGES = {"data.limit_train": 2000, "data.limit_test": 1000, "eval_every": 50}
CNN = {"model.widths": (4, 8), "model.kernel": 3, "model.hidden": 32}
CURVES = IMAGES | CNN
POINTS = CURVES | {"data.limit_train": 1000, "data.limit_test": 500, "seeds": 3}
POINTS |= {"rounds": 300, "algorithm.lr": 0.1, "eval_every": 30}  # an evaluation costs as much as three rounds
CIFAR = {  # a ResNet-20 of width 8 is at chance after 100 rounds, which take four times as long
    **{"data.limit_train": 4000, "data.limit_test": 1000, "seeds": 3, "rounds": 300, "eval_every": 50},
    **{"model.name": "cnn", "model.widths": (8, 16), "model.kernel": 3, "model.hidden": 32},
    **{"algorithm.lr": 0.02, "algorithm.batch_size": 32},
}
PRESETS = {
    "t2": Preset(lambda: _two_alphas(3), CURVES),
    "f2": Preset(lambda: _two_alphas(5), POINTS | {"data.limit_train": 2000, "seeds": 6}),
    "f3": Preset(_figure_3, POINTS),
    "f4": Preset(_figure_4, POINTS),
    "f5": Preset(_figure_5, POINTS),
    "f6": Preset(_figure_6, POINTS),
    "f7a": Preset(lambda: _cifar(20), CIFAR),
    "f7b": Preset(lambda: _cifar(35), CIFAR),
    "f7c": Preset(lambda: _larger(35), POINTS),
    "f7d": Preset(lambda: _larger(50), POINTS),
    "f8_35": Preset(lambda: _figure_8(35), POINTS),
    "f8_50": Preset(lambda: _figure_8(50), POINTS),
}


def get_config(argument: str = "t2") -> ConfigDict:
    return preset_config("madfl", PRESETS, argument)
