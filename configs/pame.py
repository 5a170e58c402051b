"""The studies of PaME (Sha et al.), a preset for each figure: PaME alone, and against its rivals.

Command:   mdfl sweep pame:ITEM --scale=small
           For f11 and f12 the data folder holds fashion_mnist.npz or cifar10.npz (docs/data.md).

| item                       | study                                                            | runs x rounds |
|----------------------------|------------------------------------------------------------------|---------------|
| f2                         | figures 2 to 6: PaME on linear regression, one number at a time   | 360 x 600     |
| f3, f4                     | the parts over s/n, the share of a message, and over nu           | 108 x 600     |
| f5, f6                     | the parts over a common period, and over periods that nodes draw  | 90 x 600      |
| f7                         | figure 7: the density of the graph and s/n, m = 64, nu = 0.4      | 216 x 600     |
| f8                         | figure 8: PaME and five rivals, logistic regression, n = 1,000    | 1,143 x 600   |
| f9_1000, f9_5000, f9_10000 | figures 9, 10: the same to the paper's stop rule, three n         | 351 x 600     |
| f11                        | figure 11: Fashion-MNIST, C = 1, 7, 10 classes a node             | 189 x 1,000   |
| f12                        | figure 12: CIFAR-10, ResNet-20, IID and Dirichlet 0.6, 0.3        | 189 x 2,000   |

The paper leaves open: samples of a node (600 for linear, 100 for logistic regression), the density of the graph (0.5
and 0.3), the size of a minibatch (200 and 25; 32 and 64 of the images), the CNN, the number of nodes of figures 11 and
12 (32), and how rivals were tuned. Its algorithm samples a minibatch, so f2 to f8 run with minibatches and with full
gradients (`algorithm.batch_size=0`), f9 with full ones. In linear regression with fewer samples than coordinates
sigma^0 = 1 diverges.

Participation and period are the same for all (V-D): 0.2 of the neighbours, every 5 rounds; under PaME each node draws
its period from 3 to 7. Rivals' exchanges go both ways, so they send about 1.6 times PaME's messages. f8 also has them
with as many messages as PaME: D-PSGD and DFedSAM with `algorithm.picks=one_way`, whose weights are doubly stochastic in
the mean only; BEER, ANQ-NIDS and DMGT-SVRG, which need symmetric weights, with half the participation. DMGT-SVRG, of
the paper's table I, is none of its figure's rivals.

Each algorithm has its own grid, and its best point is chosen for each m (and n, data, links) by one rule: the fewest
bits to the target accuracy. BEER's step of gossip and ANQ's absolute error are in the grids. `small` has f2 and f7 in
full, f8 with half the rounds, f9 with a quarter to a tenth of the coordinates, and small networks in f11 and f12.

Expected:  docs/pame.md and `python -m benchmarks.papers --page=papers`, the paper's figures beside ours.
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from mdfl_jax.config import default_config
from mdfl_jax.config.presets import Preset, preset_config

NODES = "network.num_clients=32,64,128"
BATCH = 200
GRADIENTS = f"algorithm.batch_size=0,{BATCH}"
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
COMMON = ((1, 1), (2, 2), (4, 4), (8, 8), (16, 16))
DRAWN = ((1, 1), (1, 3), (2, 6), (4, 12), (8, 24))
PERIODS = "algorithm.period_min+algorithm.period_max"
NUMBERS = f"algorithm.transmission+algorithm.participation+{PERIODS}"

RIVALS = ("dpsgd", "dfedsam", "beer", "anq_nids")
TUNED = "algorithm.lr, algorithm.consensus_lr, algorithm.eta"
VARIANT = "algorithm.name+algorithm.batch_size+algorithm.picks+algorithm.participation"
NAMES = "algorithm.name"
Grid = dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]  # lr, BEER's gossip step, ANQ's error
REGRESSION: Grid = {
    "pame": ((0.3, 1, 3, 10, 30), (0.4,), (0.1,)),
    "dpsgd": ((0.1, 0.3, 1, 3, 10), (0.4,), (0.1,)),
    "dfedsam": ((0.1, 0.3, 1, 3, 10), (0.4,), (0.1,)),
    "beer": ((0.03, 0.1, 0.3, 1), (0.2, 0.4, 0.8), (0.1,)),
    "anq_nids": ((0.3, 1, 3, 10), (0.4,), (0.03, 0.1, 0.3)),
}
FIGURE_8: Grid = {**REGRESSION, "dmgt_svrg": ((0.1, 0.3, 1, 3, 10), (0.4,), (0.1,))}
IMAGES: Grid = {  # table II: sigma^0 = 5, so lr = 0.2
    "pame": ((0.2, 0.8, 3.2), (0.4,), (0.1,)),
    "dpsgd": ((0.05, 0.2, 0.8), (0.4,), (0.1,)),
    "dfedsam": ((0.05, 0.2, 0.8), (0.4,), (0.1,)),
    "beer": ((0.05, 0.2, 0.8), (0.4, 0.8), (0.1,)),
    "anq_nids": ((0.05, 0.2, 0.8), (0.4,), (0.01, 0.1)),
}


def _axis(fields: str, points: Iterable[tuple[object, ...]]) -> str:
    """Return a sweep axis of tied fields, each point once."""
    return f"{fields}=" + ",".join(dict.fromkeys("+".join(map(str, point)) for point in points))


def compared(grid: Grid, fields: str, variants: Iterable[tuple[object, ...]]) -> str:
    """Return the axis of algorithms, perhaps in several variants, each with its whole grid.

    Args:
      grid: the values of each algorithm.
      fields: `NAMES`, or `VARIANT` where the size of a minibatch, the exchange of picks and the participation vary.
      variants: the values of these fields; the first one is the algorithm.
    """
    points = []
    for variant in variants:
        rates, paces, errors = grid[str(variant[0])]
        points += [(*variant, lr, pace, eta) for lr in rates for pace in paces for eta in errors]
    return _axis(f"{fields}+{TUNED.replace(', ', '+')}", points)


def linear(axes: str) -> ConfigDict:
    """PaME V-C: PaME alone with table II's numbers, until the stop rule ends a run."""
    config = default_config()
    config.title = "PaME on linear regression"
    config.sweep = f"{GRADIENTS}; {axes}"
    config.seeds, config.rounds, config.eval_every = 3, 600, 20
    config.stop_std, config.target = 1e-3, 0.9
    config.data.name = "synthetic:linear"
    config.data.dimension, config.data.samples_per_client = 300, 600
    config.network.graph = "erdos_renyi"
    config.graph.probability = 0.5
    config.algorithm.name = "pame"
    config.algorithm.lr = 1.0  # 1 / sigma^0
    config.engine.record_positions = False
    config.engine.runs_per_batch = 2  # a batch ends only when all of its runs have stopped
    return config


def _figure_2() -> ConfigDict:
    shares = [*((rate, 0.2, 3, 7) for rate in RATES), *((0.2, rate, 3, 7) for rate in RATES)]
    return linear(f"{NODES}; {_axis(NUMBERS, [*shares, *((0.2, 0.2, *p) for p in (*COMMON, *DRAWN))])}")


def _figure_7() -> ConfigDict:
    config = linear(f"graph.probability=0.1,0.2,0.4,0.6,0.8,1; {_rates('transmission')}")
    config.network.num_clients = 64
    config.graph.allow_disconnected = True  # at a density of 0.1 some drawn graphs are disconnected
    config.algorithm.participation = 0.4
    return config


def _rates(number: str) -> str:
    return f"algorithm.{number}=" + ",".join(map(str, RATES))


def _rivals(title: str, grid: Grid, nu: float) -> ConfigDict:
    """PaME V-D: the same participation and period for all algorithms, each at its best point of its grid."""
    config = default_config()
    config.title = f"PaME and its rivals on {title}"
    config.sweep = compared(grid, NAMES, [(name,) for name in ("pame", *RIVALS)])
    config.select, config.select_by, config.x_axis = TUNED, "bits_to_target", "bits"
    config.seeds = 3
    config.network.graph, config.network.num_clients = "erdos_renyi", 32
    config.algorithm.participation = nu
    config.engine.record_positions = False
    return config


def _logistic() -> ConfigDict:
    config = _rivals("logistic regression", REGRESSION, 0.2)
    config.sweep = f"{NODES}; {config.sweep}"
    config.rounds, config.eval_every, config.target = 600, 10, 0.75
    config.data.name = "synthetic:logistic"
    config.data.dimension, config.data.samples_per_client, config.data.l2 = 1000, 100, 1e-3
    config.graph.probability = 0.3
    config.algorithm.period_min, config.algorithm.period_max = 3, 7
    return config


def _figure_8() -> ConfigDict:
    config = _logistic()
    rivals = list(FIGURE_8)[1:]
    variants = [(name, batch, "both_ways", 0.2) for batch in (0, 25) for name in FIGURE_8]
    variants += [(name, 0, "one_way", 0.2) for name in rivals[:2]]
    variants += [(name, 0, "both_ways", 0.1) for name in rivals[2:]]
    config.sweep = f"{NODES}; {compared(FIGURE_8, VARIANT, variants)}"
    return config


def _to_the_stop(dimension: int) -> ConfigDict:
    config = _logistic()
    config.title += f" to the stop, n = {dimension:,}"
    config.data.dimension = dimension
    config.stop_std = 1e-3
    config.engine.runs_per_batch = 2  # as in `linear`
    return config


def _images(data: str, batch: int, axis: str) -> ConfigDict:
    """PaME V-D, table II: nu = 0.5, s/n = 0.1, gamma = 1.001, sigma^0 = 5, periods of 5 to 10."""
    config = _rivals(data, IMAGES, 0.5)
    config.sweep = f"{axis}; {config.sweep}"
    config.algorithm.batch_size = batch
    config.rounds, config.eval_every = 1000, 50
    config.data.validation = 1000
    config.graph.probability = 0.5
    config.algorithm.transmission, config.algorithm.penalty_growth = 0.1, 1.001
    config.algorithm.period_min, config.algorithm.period_max = 5, 10
    return config


def _figure_11() -> ConfigDict:
    config = _images("Fashion-MNIST", 32, "data.classes_per_client=1,7,10")
    config.target = 0.7
    config.data.name, config.data.partition = "fashion_mnist", "classes_per_client"
    config.model.name, config.model.widths, config.model.kernel = "cnn", (16, 32), 5
    return config


def _figure_12() -> ConfigDict:
    config = _images("CIFAR-10", 64, "data.partition+data.alpha=iid+1.0,dirichlet+0.6,dirichlet+0.3")
    config.rounds, config.target = 2000, 0.7
    config.data.name = "cifar10"
    config.model.name = "resnet20"
    return config


STOPPED = {"data.samples_per_client": 50}
FEW = {"data.limit_test": 500, "data.validation": 500}
CNN = {"model.widths": (8, 16), "network.num_clients": 10, "data.limit_train": 5000, "algorithm.batch_size": 16}
RESNET = {"model.base_width": 4, "network.num_clients": 6, "data.limit_train": 3000, "algorithm.batch_size": 8}
PRESETS = {
    "f2": Preset(_figure_2),
    "f3": Preset(lambda: linear(f"{NODES}; {_rates('transmission')}")),
    "f4": Preset(lambda: linear(f"{NODES}; {_rates('participation')}")),
    "f5": Preset(lambda: linear(f"{NODES}; {_axis(PERIODS, COMMON)}")),
    "f6": Preset(lambda: linear(f"{NODES}; {_axis(PERIODS, DRAWN)}")),
    "f7": Preset(_figure_7),
    "f8": Preset(_figure_8, {"rounds": 300}),
    "f9_1000": Preset(lambda: _to_the_stop(1000), STOPPED | {"data.dimension": 250}),
    "f9_5000": Preset(lambda: _to_the_stop(5000), STOPPED | {"data.dimension": 500}),
    "f9_10000": Preset(lambda: _to_the_stop(10_000), STOPPED | {"data.dimension": 1000}),
    "f11": Preset(_figure_11, FEW | CNN | {"rounds": 200, "eval_every": 40}),
    "f12": Preset(_figure_12, FEW | RESNET | {"rounds": 100, "eval_every": 25, "target": 0.25}),
}


def get_config(argument: str = "f2") -> ConfigDict:
    return preset_config("pame", PRESETS, argument)
