"""Two speeds of clients on scikit-learn's digits: the thesis's study of mobility at the size of a laptop.

Command:   python -m launch.sweep --config=configs/thesis_digits.py:ARGUMENT

| argument    | tables of the thesis | study                                                              | runs |
|-------------|----------------------|--------------------------------------------------------------------|------|
| p_non_iid   | 1, 2                 | share p of fast clients, plain averaging and automatic ratio       | 168  |
| a_non_iid   | 3, 4, 7              | the ratio a of speed-aware averaging for each p                    | 504  |
| p_iid       | 5, 6                 | p_non_iid with IID data                                            | 168  |
| a_iid       | 8                    | a_non_iid with IID data                                            | 504  |

World, contact, N = 48, learning rate, minibatch and local steps are the thesis's (configs/thesis_cifar.py); the data
and the model are small. The length is not: 100 rounds, after which learning is far from its end, chosen on p = 0 under
other seeds. Of 48 clients a share p are p N rounded half up: 2, 10, 19, 29, 38 for 5, 20, 40, 60, 80 %.

The thesis: accuracy grows with p (+2.73 to +8.97 points), fast clients lead (by +4.81 at p = 5 % to +0.90 at 80 %), and
           a = 1 costs accuracy (-0.56 to -5.11).
Expected:  +3.3 to +14.5 points over p = 0, leads of +4.2 to +0.7, and a = 1 less plain -3.2 to 0.0; docs/thesis.md
           has all tables with their intervals.
Measured:  p_non_iid 38 s, p_iid 28 s, a_non_iid 64 s, a_iid 60 s on two CPU cores, compiling included.
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

NUM_CLIENTS = 48
PERCENT = (0, 5, 20, 40, 60, 80, 100)
RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 1.0)  # 0 is plain averaging
SHARES = "network.num_mobile=" + ",".join(str((p * NUM_CLIENTS + 50) // 100) for p in PERCENT)


def world() -> ConfigDict:
    """The thesis's clients: how they move, meet, and train between two exchanges."""
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
    """Sets the axes, the baseline and the partition of an argument.

    Raises:
      ValueError: for an unknown argument.
    """
    arguments = [f"{axis}_{data}" for data in ("non_iid", "iid") for axis in "pa"]
    if argument not in arguments:
        raise ValueError(f"argument {argument!r}; it must be one of {', '.join(arguments)}")
    config.data.partition = "iid" if argument in ("p_iid", "a_iid") else "shards"
    if argument.startswith("p"):
        config.sweep = f"{SHARES}; network.mixing=uniform,speed_aware_auto"
        config.baseline = "network.mixing=uniform"
    else:
        config.network.mixing = "speed_aware"
        config.sweep = f"{SHARES}; network.ratio={','.join(f'{a:g}' for a in RATIOS)}"
        config.baseline = "network.ratio=0"


def get_config(argument: str = "p_non_iid") -> ConfigDict:
    config = world()
    config.name = f"thesis_digits_{argument}"
    config.title = "Fast and slow clients learn handwritten digits"
    config.seeds, config.rounds, config.eval_every = 12, 100, 10
    config.target = 0.7
    config.data.name = "digits"
    config.model.name = "mlp"
    config.model.widths = (32,)
    sweep_of(config, argument)
    return config
