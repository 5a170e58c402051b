"""Which movement spreads knowledge best? Eight models of the plane at one mean speed, on handwritten digits.

Command:   python -m launch.sweep --config=configs/waypoint_digits.py
Expected:  group 85 %, random waypoint 77 %, random direction and Levy walk 63 %, the others less (docs/movement.md).
Measured:  110 s of rounds and 92 s of compiling, on two CPU cores shared with other work.

All 20 clients move, at 10 m/s on average, in 500 m x 500 m; but for `group`, whose members take a fresh place
around their reference point each round and so move some 46 m a round: it is not to be compared with the others.
"""

from ml_collections import ConfigDict

from configs import digits

SPEED = 10.0
MODELS = (
    "static_plane",
    "random_walk",
    "random_waypoint",
    "random_direction",
    "gauss_markov",
    "manhattan",
    "levy_walk",
    "group",
    "patrol",
)


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "waypoint_digits"
    config.title = "Eight ways of moving at one mean speed"
    config.sweep = f"network.mobility={','.join(MODELS)}"
    config.baseline = "network.mobility=random_waypoint"
    config.seeds = 3
    config.rounds = 300

    config.network.num_mobile = 20
    config.network.radius = 50.0
    config.motion.width = config.motion.height = 500.0
    config.motion.speed_min = config.motion.speed_max = SPEED
    config.motion.beta = 2 / 3  # random_walk: speeds of 2/3 to 4/3 of it
    config.motion.speed_std = SPEED * 0.7979  # gauss_markov: a speed of two such components is sqrt(pi / 2) times it
    return config
