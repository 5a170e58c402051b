"""Which movement spreads knowledge best? Eight mobility models of the plane at one mean speed, on digits.

Command:   mdfl sweep waypoint_digits
Expected:  group 85 %, random waypoint 77 %, random direction and Levy walk 63 %, the others less (docs/movement.md).
Measured:  110 s of rounds and 92 s of compiling, on two CPU cores that ran other work at the same time.

All 20 clients move at 10 m/s on average in a square of 500 m x 500 m. `group` is an exception: its members take a new
place around their reference point in each round, so they move about 46 m a round. Do not compare `group` with the
others. `static`, where nobody moves, is included for comparison.
"""

from ml_collections import ConfigDict

from configs import digits

SPEED = 10.0
MODELS = (
    "static",
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

    config.network.world = "plane"
    config.network.num_mobile = 20
    config.network.radius = 50.0
    config.motion.width = config.motion.height = 500.0
    config.motion.speed_min = config.motion.speed_max = SPEED
    config.motion.beta = 2 / 3  # random_walk: speeds of 2/3 to 4/3 of the mean speed
    config.motion.speed_std = SPEED * 0.7979  # gauss_markov: the mean speed is sqrt(pi / 2) times this
    return config
