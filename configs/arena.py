"""The arena: mobility rules and strategies against each other, with the same data, places and mobile clients.

Command:   mdfl sweep arena:digits
           A rule of your own (docs/extending.md), in the file my_rule.py, against two others:
           mdfl sweep arena:centre,rules=waypoint+dcm+my_rule --use=my_rule.py

| study           | settings                                                                  | runs x rounds |
|-----------------|---------------------------------------------------------------------------|---------------|
| digits          | M 1, 3, 5; Rc 1, 2, 3; Rm 2, 5, infinity; alpha 0.05                        | 5,400 x 300   |
| digits_data     | M 3, Rc 2, Rm 5; alpha 0.05, 0.1, 0.5 and labels by place; both mixings     | 1,920 x 300   |
| digits_met      | M 1, 3, 5; Rc 2, Rm 5; rules that know only whom they have met              | 600 x 300     |
| centre          | M 3, Rc 2, Rm 5, alpha 0.05                                                | 280 x 300     |
| plane           | M 1, 3, 5 in 500 m x 500 m; disc contact, or swept and failing links       | 840 x 300     |
| movers          | who moves: M 1, 3, 5 under DCM and waiting; Rc 2, Rm 5, alpha 0.05          | 600 x 300     |
| relays          | 3 clients without data, where: M 1, 3, 5; as movers                          | 480 x 300     |
| mnist, fashion  | M 1, 3, 5; Rc 1, 2, 3; Rm 5; 600 images, of mnist.npz, fashion_mnist.npz    | 450 x 300     |

The report's panel of rivals has the paired differences to any of the rules, with intervals that hold together over the
whole matrix: at the end, over all rounds, for the worst client, and after equal bits and equal distance moved. In the
study of movers the rivals are the choices of `network.movers`, in that of relays those of `network.relay_places`.
Strategies are chosen on the digits with seeds 0 to 19, and confirmed with others
(`--config.first_seed=100 --config.seeds=40`).
"""

from collections.abc import Sequence
from itertools import product

from ml_collections import ConfigDict

from configs import digits, madfl
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.rule import ORACLE
from mdfl_jax.networks.worlds import MOVERS, RELAY_PLACES

RULES = ("random_movement", "waypoint", "dam", "dcm")
STRATEGIES = ("age_aware", "coordinated", "cover_tour", "dcm_weighted", "spectral", "staleness", "waiting", "learnt")
MET = (
    *("waypoint", "coverage", "dam", "dcm", "coordinated", "spectral", "staleness", "waiting", "learnt"),
    "waiting/explored",
)
PLANE = ("random_waypoint", "dcm", "cover_tour", "spectral", "staleness", "waiting", "learnt")
MOBILE, RADII, STEPS = (1, 3, 5), (1, 2, 3), (2, 5, "inf")
SETTINGS = ("network.num_mobile", "network.radius", "network.max_step")
LINKS = ("network.num_mobile", "network.contact", "network.link_failure")
RULE, KNOWLEDGE = "network.mobility", "motion.knowledge"
DATA = ("data.partition", "data.alpha", "network.mixing")
SPREADS = (*(("dirichlet", alpha) for alpha in (0.05, 0.1, 0.5)), ("by_place", 0.05))  # the latter has no alpha
MIXINGS = ("metropolis_hastings", "fedavg")
CHOICES = {"movers": ("network.movers", MOVERS), "relays": ("network.relay_places", RELAY_PLACES)}
IMAGES = {"mnist": "mnist", "fashion": "fashion_mnist"}


def _axis(names: Sequence[str], points: Sequence[Sequence[object]]) -> str:
    return "+".join(names) + "=" + ",".join("+".join(map(str, point)) for point in points)


def _rules(chosen: Sequence[str], knowledge: str) -> str:
    """Return the axis of the rules, of which some may name what their clients know: ``waiting/explored``."""
    if not any("/" in rule for rule in chosen):
        return _axis((RULE,), [(rule,) for rule in chosen])
    pairs = []
    for name, _, known in (rule.partition("/") for rule in chosen):
        knows = MOBILITIES.forms(name)[0].knowledge  # else its runs are the same with any knowledge
        pairs.append((name, known or (knowledge if knows else ORACLE)))
    return _axis((RULE, KNOWLEDGE), pairs)


def _studies() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the settings and the rules of each study; of movers and relays the rules are among the settings."""
    whole = _axis(SETTINGS, list(product(MOBILE, RADII, STEPS)))
    some = _axis(SETTINGS, list(product(MOBILE, RADII, (5,))))
    data = _axis(DATA, [(*spread, mixing) for spread, mixing in product(SPREADS, MIXINGS)])
    best = ("waypoint", "dcm", "cover_tour", "waiting", "learnt")
    return {
        "digits": (whole, ("waypoint", "dcm", *STRATEGIES)),
        "digits_data": (data, (*RULES, *STRATEGIES)),
        "digits_met": (_axis(SETTINGS[:1], [(count,) for count in MOBILE]), MET),
        "centre": ("", (*RULES, *STRATEGIES, "coverage", "waiting/explored")),
        "movers": ("", ("dcm", "waiting")),
        "relays": ("", ("dcm", "waiting")),
        "plane": (_axis(LINKS, [(count, *link) for count in MOBILE for link in (("disc", 0), ("swept", 0.2))]), PLANE),
        "mnist": (some, best),
        "fashion": (some, best),
    }


def _of_images(name: str) -> ConfigDict:
    """Return MADFL's network at the size that two cores run (`configs/madfl.py`)."""
    config = madfl.mnist()
    config.update_from_flattened_dict(madfl.POINTS)
    config.data.name = name
    config.data.limit_train, config.data.limit_test = 600, 400  # nine settings for three rules in half an hour
    return config


def _in_plane(config: ConfigDict) -> None:
    """Change the digits' world to a plane in which a grid unit is 28 m: Rc 2 is 55 m, and Rm 5 is 14 s at 10 m/s."""
    config.network.world = "plane"
    config.network.radius = 55.0
    config.motion.width = config.motion.height = 500.0
    config.motion.speed_min = config.motion.speed_max = 10.0
    config.motion.dt = 14.0
    config.cost.joules_per_metre = 20.0  # as a small robot


def get_config(argument: str = "digits") -> ConfigDict:
    """Return a study of the arena; STUDY, or STUDY,rules=A+B+C for other rules (waiting/met: what clients know)."""
    studies = _studies()
    name, _, rules = argument.partition(",rules=")
    if name not in studies:
        raise UserError(unknown_name("argument", name, studies))
    settings, known = studies[name]
    chosen = rules.split("+") if rules else known
    config = _of_images(IMAGES[name]) if name in IMAGES else digits.get_config()
    config.rounds, config.seeds = 300, 10 if name in IMAGES else 20
    config.first_seed = 100 if name in IMAGES else 0  # strategies were chosen with the seeds before it
    config.name, config.title = f"arena_{name}", f"Where should clients move? ({name.replace('_', ', ')})"
    config.network.num_mobile, config.network.radius, config.network.max_step = 3, 2.0, 5.0
    config.motion.knowledge = "met" if name == "digits_met" else ORACLE
    config.sweep = "; ".join(filter(None, (settings, _rules(chosen, config.motion.knowledge))))
    config.baseline = f"{RULE}=" + ("dcm" if "dcm" in chosen else chosen[0].partition("/")[0])
    if name == "plane":
        _in_plane(config)
    if name in CHOICES:
        field, choices = CHOICES[name]
        worlds = _axis(("network.num_mobile", RULE), list(product(MOBILE, chosen)))
        config.sweep, config.baseline = f"{worlds}; {field}=" + ",".join(choices), f"{field}={choices[0]}"
    if name == "relays":
        config.network.num_clients, config.network.relays = 23, 3  # 20 with the data and places of the other studies
    config.engine.record_positions = False
    return config
