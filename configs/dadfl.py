"""The studies of DADFL (Reza et al.), a preset for each figure.

Command:   mdfl sweep dadfl:ITEM --scale=small
           The data folder holds mnist.npz or cifar10.npz (docs/data.md): MDFL_DATA_DIR=DIR or --config.data.dir=DIR.

| item | study                                                                           | runs x rounds |
|------|---------------------------------------------------------------------------------|---------------|
| f2   | figure 2: MNIST, alpha 0.05 and 0.1, Rm = 5 and infinity, four movement patterns | 160 x 1,000   |
| f3   | figure 3: accuracy over M (Rc = 3), and over Rc and Rm (M = 3), alpha 0.05       | 420 x 1,000   |
| f4   | figure 4: 50 clients on 35 x 35, Rc = 5, Rm = 9 and infinity                     | 80 x 1,000    |
| f5   | figure 5: CIFAR-10, ResNet-50, Rm = 5 and infinity                               | 80 x 600      |

DADFL differs from MADFL in the weights (FedAvg), the learning rate (0.3, with momentum 0.9 and weight decay) and the
order of a round: clients move before they mix (`network.order=move_first`). The values on the axes of figure 3 are
ours.
At the paper's learning rate on MNIST, 0.3 with momentum 0.9, our models predict one class for good or diverge within 30
rounds. `small` has the 0.03 of MADFL; `--config.algorithm.lr=0.03` sets
it at the paper's size. `small` has 1,000 images (f4: 2,000), a smaller CNN, 300 rounds and three or six seeds; f5 is
cut as madfl.py's f7a.

Expected:  `python -m benchmarks.papers --page=papers`, the paper's figures beside ours.
"""

from ml_collections import ConfigDict

from configs import madfl
from mdfl_jax.config.presets import Preset, preset_config


def mnist(num_mobile: int = 5) -> ConfigDict:
    """DADFL V-A: FedAvg weights, lr 0.3, momentum 0.9, weight decay 5e-4, 10 trials."""
    config = madfl.mnist(num_mobile)
    config.title = "DADFL: mobility on {data}"
    config.seeds = 10
    config.network.mixing = "fedavg"
    config.network.order = "move_first"
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.weight_decay = 0.3, 0.9, 5e-4
    return config


def _figure_2() -> ConfigDict:
    config = mnist()
    config.sweep = f"data.alpha=0.05,0.1; network.max_step=5,inf; {madfl.PATTERNS}"
    return config


def _figure_3() -> ConfigDict:
    config = mnist()
    over_m = ((m, 3, 5) for m in madfl.M)
    over_rc = ((3, rc, 5) for rc in madfl.RC)
    over_rm = ((3, 3, rm) for rm in (*madfl.RM, "inf"))
    config.sweep = f"{madfl.worlds([*over_m, *over_rc, *over_rm])}; {madfl.MOVING}"
    return config


def _figure_4() -> ConfigDict:
    config = madfl.larger(mnist(), 50)
    config.sweep = f"network.max_step=9,inf; {madfl.PATTERNS}"
    return config


def _figure_5() -> ConfigDict:
    """DADFL V-A: ResNet-50 from ImageNet's weights (--config.model.pretrained=FILE), 600 rounds."""
    config = madfl.cifar(mnist())
    config.sweep = f"network.max_step=5,inf; {madfl.PATTERNS}"
    config.rounds = 600
    config.model.name = "resnet50"
    config.engine.remat = True
    return config


SHORT = {"rounds": 300, "eval_every": 30, "data.limit_train": 1000, "data.limit_test": 500}
CUT = SHORT | madfl.CNN | {"algorithm.lr": 0.03}
PRESETS = {
    "f2": Preset(_figure_2, CUT | {"seeds": 6}),
    "f3": Preset(_figure_3, CUT | {"seeds": 3}),
    "f4": Preset(_figure_4, CUT | {"seeds": 6, "data.limit_train": 2000}),
    "f5": Preset(_figure_5, madfl.CIFAR | {"engine.remat": False}),
}


def get_config(argument: str = "f2") -> ConfigDict:
    return preset_config("dadfl", PRESETS, argument)
