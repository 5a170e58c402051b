"""What do attackers do to moving clients, and which robust rule helps? Digits, and MNIST for the main comparison.

Command:   mdfl sweep attacked:STUDY
Expected:  docs/adversaries.md has the tables.

| STUDY    | what varies                                                                          | runs x rounds |
|----------|--------------------------------------------------------------------------------------|---------------|
| rules    | each rule, without an attack and under each; 2 of 20 attack, random movement, Rc 3   | 5,040 x 100   |
| movement | three rules; movement, Rc 2, 3, 5, who attacks, and 1, 2, 4 of them, as below         | 2,040 x 100   |
| skewed   | the best four rules under three attacks, with nearly one label a client (alpha 0.05)   | 320 x 100     |
| mnist    | three rules under the same attacks, images of mnist.npz and alpha 0.5                 | 120 x 100     |

`movement` is not a full factorial: random movement and DCM with three radii, three other movements with Rc 3, each
without an attack and with two sign-flipping clients anywhere; and, with Rc 3 under random movement and DCM, 1, 2 or 4
mobile or static clients that flip signs, and 2 that send dissensus. Half of the clients move, so that mobile and static
attackers can be as many. All learn a linear model; labels are those of Dirichlet 0.5.
"""

from itertools import product

from ml_collections import ConfigDict

from configs import digits, madfl
from mdfl_jax.core.errors import UserError, unknown_name

RULES = (
    *("mean", "norm_clipping", "clipped_gossip", "clipped_gossip_adaptive", "self_centred_clipping"),
    *("median", "trimmed_mean", "trimmed_share", "geometric_median", "krum", "multi_krum"),
    *("nnm_median", "nnm_trimmed_mean", "nnm_geometric_median", "nnm_krum"),
    *("ubar", "balance", "reputation"),
)
FEW_RULES = ("mean", "median", "clipped_gossip_adaptive")
BEST_RULES = ("mean", "clipped_gossip", "clipped_gossip_adaptive", "reputation")
IMAGE_RULES = BEST_RULES[:3]
FEW_ATTACKS = ("sign_flip", "dissensus", "label_flip")
ATTACKS = (*FEW_ATTACKS, "gaussian", "a_little_is_enough")
MORE_ATTACKS = ("scaled", "constant", "zero", "mimic", "replay", "inner_product", "label_flip_pair", "backdoor")
COMPARED = ("random_movement", "dcm")
MOVEMENTS = ("static", "random_movement", "dam", "dcm", "waiting")
RADII, NUMBERS, WHO = (2, 3, 5), (1, 2, 4), ("mobile", "static")
PLACES = [(move, radius) for move, radius in product(MOVEMENTS, RADII) if move in COMPARED or radius == 3]
RULE, ATTACK = "algorithm.aggregation", "attack.name"
SETTING = ("network.mobility", "network.radius", ATTACK, "attack.number", "attack.who")


def settings() -> list[tuple[object, ...]]:
    """Return the settings of the study of movement, in the order of `SETTING`. The attack without a name is none."""
    moves = [(*place, attack, 2, "random") for place in PLACES for attack in ("", "sign_flip")]
    many = product(COMPARED, (3,), ("sign_flip",), NUMBERS, WHO)
    others = product(COMPARED, (3,), ("dissensus",), (2,), WHO)
    return [*moves, *many, *others]


def _axis(field: str, values: tuple[object, ...]) -> str:
    return f"{field}=" + ",".join(map(str, values))


def _sweeps() -> dict[str, str]:
    """Return the sweep of each study."""
    few = _axis(RULE, FEW_RULES)
    placed = "+".join(SETTING) + "=" + ",".join("+".join(map(str, setting)) for setting in settings())
    attacks = _axis(ATTACK, ("", *FEW_ATTACKS))
    return {
        "rules": f"{_axis(RULE, RULES)}; {_axis(ATTACK, ('', *ATTACKS, *MORE_ATTACKS))}",
        "movement": f"{few}; {placed}",
        "skewed": f"{_axis(RULE, BEST_RULES)}; {attacks}",
        "mnist": f"{_axis(RULE, IMAGE_RULES)}; {attacks}",
    }


def _digits() -> ConfigDict:
    config = digits.get_config()
    config.model.name = "linear"
    config.data.alpha = 0.5
    config.seeds = 20
    return config


def _mnist() -> ConfigDict:
    """Return MADFL's clients with images that two cores can learn (`configs/madfl.py`)."""
    config = madfl.mnist()
    config.model.name = "linear"
    config.data.limit_train, config.data.limit_test = 1000, 500
    config.data.alpha = 0.5
    config.seeds = 10
    return config


def get_config(argument: str = "rules") -> ConfigDict:
    """Return one of the studies: rules, movement, skewed or mnist."""
    sweeps = _sweeps()
    if argument not in sweeps:
        raise UserError(unknown_name("argument", argument, sweeps))
    config = _mnist() if argument == "mnist" else _digits()
    if argument == "skewed":
        config.data.alpha = 0.05
    config.name, config.title = f"attacked_{argument}", f"Attackers among moving clients ({argument})"
    config.sweep, config.baseline = sweeps[argument], f"{RULE}=mean"
    config.rounds, config.eval_every = 100, 20
    config.network.mobility = "random_movement"
    config.network.num_mobile, config.network.radius, config.network.max_step = 10, 3.0, 5.0
    config.attack.number = 2
    config.engine.record_positions = False
    return config
