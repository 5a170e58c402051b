"""Fast and slow clients on scikit-learn's digits: the mobility study of the thesis, small enough for a laptop.

Command:   mdfl sweep thesis_digits:ARGUMENT

| argument    | tables of the thesis | study                                                              | runs |
|-------------|----------------------|--------------------------------------------------------------------|------|
| p_non_iid   | 1, 2                 | share p of fast clients, plain averaging and automatic ratio       | 168  |
| a_non_iid   | 3, 4, 7              | the ratio a of speed-aware averaging for each p                    | 504  |
| p_iid       | 5, 6                 | p_non_iid with IID data                                            | 168  |
| a_iid       | 8                    | a_non_iid with IID data                                            | 504  |

World, contact, N = 48, learning rate, minibatch and local steps are those of the thesis (configs/thesis.py). The
data and the model are smaller. The number of rounds is our choice: 100, after which learning is far from its end. It
was chosen at p = 0 with other seeds. The number of fast clients is p N, rounded half up: of 48 clients 2, 10, 19, 29,
38 for p = 5, 20, 40, 60, 80 %.

The thesis: accuracy grows with p (+2.73 to +8.97 points above p = 0), fast clients lead (by +4.81 points at p = 5 % and
           +0.90 at 80 %), and a = 1 costs accuracy (-0.56 to -5.11 points).
Expected:  accuracy +3.3 to +14.5 points above p = 0, leads of +4.2 to +0.7 points, and accuracy with a = 1 minus that
           of plain averaging of -3.2 to 0.0 points. docs/thesis.md has the main tables.
Measured:  p_non_iid 38 s, p_iid 28 s, a_non_iid 64 s, a_iid 60 s on two CPU cores, with compiling.
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from mdfl_jax.config import default_config

NUM_CLIENTS = 48
PERCENT = (0, 5, 20, 40, 60, 80, 100)
RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 1.0)  # 0 is plain averaging


def fast_clients(percents: Iterable[int]) -> str:
    """Return a sweep axis over the number of fast clients: these shares of all in per cent, rounded half up."""
    return "network.num_mobile=" + ",".join(str((p * NUM_CLIENTS + 50) // 100) for p in percents)


def world() -> ConfigDict:
    """Return a configuration with the movement, contact and local training of the thesis's clients."""
    config = default_config()
    config.network.num_clients = NUM_CLIENTS
    config.network.radius = 45.0
    config.network.mobility = "random_walk"
    config.network.contact = "swept"
    config.motion.width = config.motion.height = 500.0
    config.motion.speed_max = 50.0
    config.motion.beta = 1.75
    config.data.shards_per_client = 4
    config.algorithm.lr = 0.01
    config.algorithm.batch_size = 8
    config.algorithm.local_steps = 3
    config.engine.record_positions = False
    return config


def sweep_of(config: ConfigDict, argument: str) -> None:
    """Set the sweep's axes, the baseline and the data partition that belong to an argument.

    Raises:
      ValueError: The argument is unknown.
    """
    arguments = [f"{axis}_{data}" for data in ("non_iid", "iid") for axis in "pa"]
    if argument not in arguments:
        raise ValueError(f"argument {argument!r}; it must be one of {', '.join(arguments)}")
    config.data.partition = "iid" if argument in ("p_iid", "a_iid") else "shards"
    if argument.startswith("p"):
        config.sweep = f"{fast_clients(PERCENT)}; network.mixing=uniform,speed_aware_auto"
        config.baseline = "network.mixing=uniform"
    else:
        config.network.mixing = "speed_aware"
        config.sweep = f"{fast_clients(PERCENT)}; network.ratio={','.join(f'{a:g}' for a in RATIOS)}"
        config.baseline = "network.ratio=0"


def get_config(argument: str = "p_non_iid") -> ConfigDict:
    config = world()
    config.name = f"thesis_digits_{argument}"
    config.title = "Fast and slow clients learn {data}"
    config.seeds, config.rounds, config.eval_every = 12, 100, 10
    config.target = 0.7
    config.data.name = "digits"
    config.model.name = "mlp"
    config.model.widths = (32,)
    sweep_of(config, argument)
    return config
