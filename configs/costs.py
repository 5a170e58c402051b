"""Movement when contacts are short: the demo's setting with a radio whose bandwidth decides which contacts count.

Command:   mdfl sweep costs
Expected:  DAM 90, 87 and 80 % with inf, 12 and 8 kbit/s, random movement 87, 82 and 78 %, static 44 % (docs/costs.md).
Measured:  six minutes on two CPU cores that were shared with other programs; 193 s of processor time.

A grid unit is 10 m and a round is 10 s. Clients that pass each other are in contact for a part of a round. A model has
a fixed number of bits, and a contact that is too short for it carries nothing.
"""

from ml_collections import ConfigDict

from configs import digits


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "costs"
    config.title = "Movement when contacts are short"
    config.sweep = "network.mobility=static,random_movement,dam; cost.bandwidth=inf,12000,8000"
    config.seeds = 4
    config.x_axis = "seconds"
    config.network.contact = "swept"
    config.motion.dt = 10.0

    config.cost.short_contact = "drop"
    config.cost.seconds_per_sample = 0.02
    config.cost.speed_spread = 0.5
    config.cost.joules_per_bit = 2e-7
    config.cost.joules_per_bit_received = 1e-7
    config.cost.joules_per_sample = 0.01
    config.cost.joules_per_metre = 200.0  # 20 J for a metre, as a small robot
    return config
