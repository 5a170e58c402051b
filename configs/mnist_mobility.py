"""The studies of MADFL and DADFL on MNIST. They need mnist.npz in the data directory (docs/data.md).

Command:   python -m launch.sweep --config=configs/mnist_mobility.py:ARGUMENT --config.data.dir=DIR

| argument   | study                                                       | runs x rounds |
|------------|-------------------------------------------------------------|---------------|
| small      | four rules on 1,000 images: minutes on two CPU cores        | 12 x 200      |
| madfl_t2   | MADFL table II: M = 3, alpha 0.05 and 0.1                   | 48 x 1,000    |
| madfl_f2   | MADFL figure 2: M = 5, alpha 0.05 and 0.1                   | 48 x 1,000    |
| dadfl_f2   | DADFL figure 2: alpha 0.05 and 0.1, Rm 5 and infinity       | 160 x 1,000   |

Expected:  MADFL table II, alpha 0.05: DCM 80.83 %, DAM 79.85 %, random movement 72.90 %, static 47.50 %; alpha 0.1:
           89.65 %, 88.51 %, 86.90 %, 66.84 %. DADFL figure 2: DAM and DCM are about 8 points above random movement at
           alpha 0.05, and 3 points at alpha 0.1.
Measured:  small, three seeds: DCM 71 %, DAM 68 %, random movement 59 %, static 38 %; 110 s on two CPU cores.
           The full studies have not been measured yet.

The full studies use every MNIST image in every round, which is about 1 TFLOP a round. They are meant for an
accelerator.
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

PATTERNS = "network.mobility=static,random_movement,dam,dcm"


def _common() -> ConfigDict:
    config = default_config()
    config.title = "Mobility on MNIST"
    config.baseline = "network.mobility=random_movement"
    config.data.name = "mnist"
    config.data.partition = "dirichlet"
    config.model.name = "cnn"
    config.network.num_clients = 20
    config.network.grid_size = 18
    config.network.radius = 3.0
    config.network.max_step = 5.0
    config.algorithm.name = "dpsgd"
    config.algorithm.batch_size = 0
    return config


def _madfl(num_mobile: int) -> ConfigDict:
    """MADFL V-A: Metropolis-Hastings weights, full-batch gradient descent with lr 0.03, 1,000 rounds, 6 trials."""
    config = _common()
    config.sweep = f"data.alpha=0.05,0.1; {PATTERNS}"
    config.seeds, config.rounds, config.eval_every = 6, 1000, 10
    config.model.widths, config.model.kernel, config.model.hidden = (16, 32), 5, 64
    config.network.num_mobile = num_mobile
    config.network.mixing = "metropolis_hastings"
    config.algorithm.lr = 0.03
    return config


def _dadfl() -> ConfigDict:
    """DADFL V-A: FedAvg weights, lr 0.3, momentum 0.9, weight decay 5e-4, 10 trials."""
    config = _madfl(num_mobile=5)
    config.sweep = f"data.alpha=0.05,0.1; network.max_step=5,inf; {PATTERNS}"
    config.seeds = 10
    config.network.mixing = "fedavg"
    config.algorithm.lr, config.algorithm.momentum, config.algorithm.weight_decay = 0.3, 0.9, 5e-4
    return config


def _small() -> ConfigDict:
    config = _common()
    config.sweep = PATTERNS
    config.seeds, config.rounds, config.eval_every = 3, 200, 20
    config.target = 0.7
    config.data.alpha = 0.05
    config.data.limit_train, config.data.limit_test = 1000, 500
    config.model.widths, config.model.kernel, config.model.hidden = (4, 8), 3, 32
    config.network.num_mobile = 5
    config.algorithm.lr = 0.1
    return config


def get_config(argument: str = "small") -> ConfigDict:
    makers = {
        "small": _small,
        "madfl_t2": lambda: _madfl(num_mobile=3),
        "madfl_f2": lambda: _madfl(num_mobile=5),
        "dadfl_f2": _dadfl,
    }
    if argument not in makers:
        raise ValueError(f"argument {argument!r}; it must be one of {', '.join(makers)}")
    config = makers[argument]()
    config.name = f"mnist_{argument}"
    return config
