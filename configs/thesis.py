"""The studies of the thesis: fast and slow clients learn CIFAR-10, a preset for each table and figure.

Command:   mdfl sweep thesis:ITEM --scale=small
           The data folder holds cifar10.npz (docs/data.md): MDFL_DATA_DIR=DIR or --config.data.dir=DIR.

| item                                | study                                                         | runs x rounds |
|-------------------------------------|---------------------------------------------------------------|---------------|
| t1, t2, t3, t4, t7, f7, f8, non_iid | label shards: the share p of fast clients x the ratio a       | 126 x 1,000   |
| t5, t6, t8, iid                     | the same with IID data                                        | 126 x 1,000   |
| algorithm_1                         | label shards, a = 0, with the local step as the text prints it | 21 x 1,000    |

Items of one study share its name and its workdir: once t1 is run, t7 only shows it. a = 0 is plain averaging. The
number of fast clients is p N, rounded half up: of 48 clients 2, 10, 19, 29, 38 for p = 5, 20, 40, 60, 80 %.

Algorithm 1 of the thesis takes one local step a round, with the SUM of the gradients of a minibatch. The author's code
takes three, with their mean. Our default is the code, since it has made the thesis's numbers; `algorithm_1`
(`algorithm.gradient=sum`, `algorithm.local_steps=1`) is the text. The text leaves open the world (500 x 500), the
radius (45), the speeds (s_max 50, beta 1.75), the model (GN-LeNet), the learning rate (0.01), the minibatch (8), the
rounds (1,000) and the shards (4 a client); they are those of the code.

`small` has p = 0, 5, 20, 80, 100 % and a = 0, 0.2, 1 (`algorithm_1` p = 0, 20, 100 %), a GN-LeNet of a quarter of the
width with 3 x 3 kernels, 200 rounds with a learning rate of 0.05, so that the length of all steps is the thesis's
(`algorithm_1` keeps 0.01), and 500 test images.

Expected:  `python -m benchmarks.papers --page=papers`, the thesis's numbers beside ours.
docs/thesis.md has the study on digits, with more seeds.
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from configs.thesis_digits import PERCENT, RATIOS, fast_clients, world
from mdfl_jax.config.presets import Preset, preset_config

STUDIES = {
    "non_iid": ("t1", "t2", "t3", "t4", "t7", "f7", "f8"),
    "iid": ("t5", "t6", "t8"),
    "algorithm_1": (),
}
"""The studies, and the items that each of them makes."""
SMALL_PERCENT, SMALL_RATIOS = (0, 5, 20, 80, 100), (0.0, 0.2, 1.0)


def sweep(percents: Iterable[int], ratios: Iterable[float]) -> str:
    """Return the sweep over the share of fast clients in per cent and the ratio a."""
    return f"{fast_clients(percents)}; network.ratio={','.join(f'{a:g}' for a in ratios)}"


def cifar(partition: str = "shards") -> ConfigDict:
    """Thesis 5 and 6.1: 48 clients walk at random, GN-LeNet, SGD with lr 0.01 and minibatches of 8, 3 seeds."""
    config = world()
    config.title = "Fast and slow clients learn {data}"
    config.sweep = sweep(PERCENT, RATIOS)
    config.baseline = "network.ratio=0"
    config.seeds, config.rounds, config.eval_every = 3, 1000, 50  # 10,000 test images cost more than 50 rounds
    config.target = 0.4
    config.data.name = "cifar10"
    config.data.partition = partition
    config.model.name = "gn_lenet"
    config.model.widths = (32, 32, 64)
    config.model.kernel = 5
    config.network.mixing = "speed_aware"
    return config


def _algorithm_1() -> ConfigDict:
    """Thesis, algorithm 1: one step, and the sum of the gradients of the minibatch."""
    config = cifar()
    config.title += ", algorithm 1 as printed"
    config.sweep, config.baseline, config.network.ratio = fast_clients(PERCENT), "network.num_mobile=0", 0.0
    config.algorithm.gradient, config.algorithm.local_steps = "sum", 1
    return config


CUT = {"rounds": 200, "eval_every": 50, "data.limit_test": 500, "model.widths": (8, 8, 16), "model.kernel": 3}
FEWER = CUT | {"algorithm.lr": 0.05, "sweep": sweep(SMALL_PERCENT, SMALL_RATIOS)}
MADE = {
    "non_iid": Preset(cifar, FEWER),
    "iid": Preset(lambda: cifar("iid"), FEWER),
    "algorithm_1": Preset(_algorithm_1, CUT | {"sweep": fast_clients((0, 20, 100))}),
}
PRESETS = {name: MADE[study]._replace(study=study) for study, items in STUDIES.items() for name in (*items, study)}


def get_config(argument: str = "t1") -> ConfigDict:
    return preset_config("thesis", PRESETS, argument)
