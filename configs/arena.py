"""The arena: mobility rules and strategies against each other, with the same data, places and mobile clients.

Command:   python -m launch.sweep --config=configs/arena.py:digits
           A rule of your own (docs/extending.md), in the file my_rule.py, against two others:
           python -m launch.sweep --config=configs/arena.py:centre,rules=waypoint+dcm+my_rule --use=my_rule.py

| study           | settings                                                                  | runs x rounds |
|-----------------|---------------------------------------------------------------------------|---------------|
| digits          | M 1, 3, 5; Rc 1, 2, 3; Rm 2, 5, infinity; alpha 0.05                        | 6,480 x 300   |
| digits_data     | M 3, Rc 2, Rm 5; alpha 0.05, 0.1, 0.5 and labels by place; both mixings     | 1,920 x 300   |
| digits_met      | as digits, for rules that know only the clients that they have met         | 4,320 x 300   |
| centre          | M 3, Rc 2, Rm 5, alpha 0.05                                                | 240 x 300     |
| mnist, fashion  | M 1, 3, 5; Rc 1, 2, 3; Rm 5; 1,000 images, of mnist.npz, fashion_mnist.npz  | 720 x 300     |

The report's panel of rivals has the paired differences to any of the rules, with intervals that hold together over the
whole matrix: at the end, over all rounds, for the worst client, and after equal bits and equal distance moved.
Strategies are chosen on the digits with seeds 0 to 19, and confirmed with others (`--config.first_seed=100`).
"""

from collections.abc import Sequence
from itertools import product

from ml_collections import ConfigDict

from configs import digits, madfl
from mdfl_jax.errors import UserError, unknown_name

RULES = ("random_movement", "waypoint", "dam", "dcm")
STRATEGIES = ("age_aware", "coordinated", "cover_tour", "dcm_weighted", "spectral", "waiting", "coverage", "exploring")
MET = ("waypoint", "coverage", "dam_met", "dcm_met", "coordinated_met", "spectral_met", "waiting_met", "exploring")
MOBILE, RADII, STEPS = (1, 3, 5), (1, 2, 3), (2, 5, "inf")
SETTINGS = ("network.num_mobile", "network.radius", "network.max_step")
DATA = ("data.partition", "data.alpha", "network.mixing")
SPREADS = (*(("dirichlet", alpha) for alpha in (0.05, 0.1, 0.5)), ("by_place", 0.05))  # the latter has no alpha
MIXINGS = ("metropolis_hastings", "fedavg")
IMAGES = {"mnist": "mnist", "fashion": "fashion_mnist"}


def _axis(names: Sequence[str], points: Sequence[Sequence[object]]) -> str:
    return "+".join(names) + "=" + ",".join("+".join(map(str, point)) for point in points)


def _studies() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the settings and the rules of each study."""
    whole = _axis(SETTINGS, list(product(MOBILE, RADII, STEPS)))
    images = _axis(SETTINGS, list(product(MOBILE, RADII, (5,))))
    data = _axis(DATA, [(*spread, mixing) for spread, mixing in product(SPREADS, MIXINGS)])
    best = ("waypoint", "dcm", "coordinated", "cover_tour", "spectral", "waiting", "coverage", "exploring")
    return {
        "digits": (whole, (*RULES, *STRATEGIES)),
        "digits_data": (data, (*RULES, *STRATEGIES)),
        "digits_met": (whole, MET),
        "centre": ("", (*RULES, *STRATEGIES)),
        "mnist": (images, best),
        "fashion": (images, best),
    }


def _of_images(name: str) -> ConfigDict:
    """Return MADFL's network at the size that two cores run (`configs/madfl.py`)."""
    config = madfl.mnist()
    config.update_from_flattened_dict(madfl.POINTS)
    config.data.name = name
    return config


def get_config(argument: str = "digits") -> ConfigDict:
    """Return a study of the arena; STUDY, or STUDY,rules=A+B+C for other rules."""
    studies = _studies()
    name, _, rules = argument.partition(",rules=")
    if name not in studies:
        raise UserError(unknown_name("argument", name, studies))
    settings, known = studies[name]
    chosen = rules.split("+") if rules else known
    config = _of_images(IMAGES[name]) if name in IMAGES else digits.get_config()
    config.rounds, config.seeds = 300, 10 if name in IMAGES else 20
    config.name, config.title = f"arena_{name}", f"Where should clients move? ({name.replace('_', ', ')})"
    config.network.num_mobile, config.network.radius, config.network.max_step = 3, 2.0, 5.0
    config.sweep = "; ".join(filter(None, (settings, "network.mobility=" + ",".join(chosen))))
    config.baseline = "network.mobility=" + ("dcm" if "dcm" in chosen else chosen[0])
    config.engine.record_positions = False
    return config
