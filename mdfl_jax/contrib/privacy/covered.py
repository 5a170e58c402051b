"""What the account covers. Everything that a client sends must follow from its noised gradients, each used once.

Then it does not matter what an algorithm does with them: momentum, trackers, compressors with a memory, partial
messages and robust rules are functions of what the account has counted. What reads the samples in another way, or
tells of a model that has not been sent, is refused by name. Where messages get the noise, each client must send one
vector a round, and it may do with its samples what it likes.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdfl_jax.algorithms.registry import aggregation_in_use, ignored_by
from mdfl_jax.attacks.registry import ATTACKS
from mdfl_jax.core.own_files import is_own
from mdfl_jax.core.section import SECTIONS, Rule, sections_in
from mdfl_jax.data.dataset import MODES
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.models.weights import WEIGHTS
from mdfl_jax.networks.costs import IGNORE
from mdfl_jax.storage.model_files import is_saved
from mdfl_jax.tasks.task import TASKS, task_named

LABELS, MOMENTS = "labels", "moments"
PUBLIC = (LABELS, MOMENTS)
"""What all may be taken to know of the samples: how many of each label a client holds; the moments of all samples."""

ONE_STEP_LATE = ("pame",)
"""The algorithms of which the account uses that messages carry nothing of the gradients of their round."""
PICKS = ("pame", "epidemic", "epidemic_oracle", "proxskip")
"""The algorithms that do not send over all links, so that the network alone does not tell who has sent."""
COVERED = (
    *("dpsgd", "pame", "local_only", "allreduce", "sgp", "dfedavgm", "gradient_tracking", "choco", "beer"),
    *("dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "epidemic", "nids", "d2", "extra", "kgt", "dcd_psgd", "anq_nids"),
    *("aug_dgm", "led", "proxskip", "dlm", "dinno"),
)
"""The algorithms that ask for one gradient a key, and of which `RoundStats.messages` says who has sent in a round."""
HOPS = {"gradient_tracking": 2, "aug_dgm": 2, "kgt": 2, "beer": 2}
"""The exchanges of a round in which a client may pass on what it has heard in this round; others have one."""
SENT_ONCE = ("dpsgd", "pame", "local_only", "dfedavgm", "dfedsam", "sgp", "epidemic", "epidemic_oracle", "choco")
"""The algorithms whose clients send one vector a round, by `mdfl_jax.algorithms.local.Settings.sent` alone."""
UPDATES = ("choco",)
"""Those of them that send updates of what all receivers hold; the others send models."""
SENDS = {
    **dict.fromkeys((*HOPS, "gt_sarah", "dmgt_svrg"), "two vectors a round"),
    "squarm_sgd": "by its silence how far its model has moved",
    **dict.fromkeys(("adpsgd", "push", "push_pull", "osgp", "swift"), "models while the next one is computed"),
}
"""What other algorithms of the package send, where it is known."""
RELEASES = {
    "dfedsam": "two gradients of one minibatch under one noise, whose difference has none",
    "squarm_sgd": "by its silence how far its model has moved, which it has not sent",
    **dict.fromkeys(("dmgt_svrg", "gt_sarah"), "gradients over all samples beside those of minibatches"),
    **dict.fromkeys(("adpsgd", "push", "push_pull", "osgp", "swift"), "models while the next gradient is computed"),
}
"""What the other algorithms of the package tell, where it is known."""
OWN_RELEASE = "messages of which the account does not know what they tell"

JUDGED = "the losses on its own samples by which a client chooses what it hears, without noise"
UNSEEING = (
    *("static", "random_movement", "waypoint", "random_walk", "random_waypoint", "trace", "contacts", "waiting"),
    *("cover_tour", "gauss_markov", "group", "levy_walk", "manhattan", "patrol", "random_direction"),
)
"""The rules of movement that read nothing of the samples."""
UNKNOWING = (
    *("sign_flip", "scaled", "constant", "zero", "gaussian", "label_flip", "label_flip_pair"),
    *("a_little_is_enough", "inner_product", "dissensus"),
)
"""The attacks that use nothing but the attacker's own data and what the receiver hears anyway."""
IN_PARTS = ("largest",)


def steps_of(whole: Any) -> int:
    """Return the gradients that a client computes in a round."""
    return 1 if "local_steps" in ignored_by(whole.algorithm.name) else int(whole.algorithm.local_steps)


def uncovered(whole: Any, public: tuple[str, ...], of_messages: bool, of_pairs: bool) -> Iterator[Rule]:
    """Yield the rules for what the account must cover, as `mdfl_jax.core.section.Section.rules` does.

    Args:
      whole: the configuration.
      public: some of `PUBLIC`.
      of_messages: whether the noise is on messages, and not on gradients.
      of_pairs: whether it is counted what each client can know of each other one.
    """
    algorithm, data = whole.algorithm, whole.data
    covered, told_by = (SENT_ONCE, SENDS) if of_messages else (COVERED, RELEASES)
    tells = f"{algorithm.name} releases {told_by.get(algorithm.name, OWN_RELEASE)}"
    yield "algorithm.name", algorithm.name not in covered, f"one of {', '.join(covered)}: {tells}"
    yield from _of_messages(whole) if of_messages else _of_gradients(whole)
    drawn = f"a data set: the samples of {data.name} are drawn anew under each seed"
    yield "data.name", not TASKS[task_named(data.name)].of_datasets, drawn
    moments = f"{MODES[1]}, or privacy.public must have {MOMENTS}: it releases the mean and deviation of all samples"
    yield "data.normalize", data.normalize != MODES[1] and MOMENTS not in public, moments
    collects = getattr(data, "collect", 0)
    yield "data.collect", collects, "0 with privacy.clip: clients share the samples of a region, and draw some twice"
    yield from _of_movement(whole, public)
    known = "empty or a file of weights: the models of a study tell of its samples, and nobody has counted what"
    yield "model.pretrained", not _is_of_weights(whole.model.pretrained), known
    short = whole.cost.short_contact
    cut = f"{IGNORE} or {IN_PARTS[0]}: with {short} a contact ends within messages, of which the account does not know"
    yield "cost.short_contact", short not in (IGNORE, *IN_PARTS), cut
    attack = whole.attack.name
    knows = f"one of {', '.join(UNKNOWING)}: with {attack} attackers pass on what clients have not sent"
    yield "attack.name", attack not in ("", *UNKNOWING), knows
    if of_messages or of_pairs:
        yield from _beside_messages(whole, "privacy.on messages" if of_messages else "privacy.pairs")
    for each in sections_in(whole):
        first = f"{each.SECTION}.{each.SWITCH or dataclasses.fields(each)[0].name}"
        own = is_own(SECTIONS.origin(each.SECTION)) if each.SECTION in SECTIONS else False
        yield first, own, "out of use with privacy.clip: a section of your own may read losses, which have no noise"


def _of_gradients(whole: Any) -> Iterator[Rule]:
    """Yield the rules of noise on gradients: what a client does with its samples besides may not show."""
    algorithm = whole.algorithm
    epochs = "0 with privacy.clip: the account is of minibatches that are drawn by chance, not of epochs"
    yield "algorithm.local_epochs", algorithm.local_epochs > 0, epochs
    rule = aggregation_in_use(algorithm.name, algorithm.aggregation)
    judges = bool(rule) and (AGGREGATIONS.traits(rule).judges or is_own(AGGREGATIONS.origin(rule)))
    yield "algorithm.aggregation", judges, f"another one: {rule} may release {JUDGED}"


def _of_messages(whole: Any) -> Iterator[Rule]:
    """Yield the rule of noise on messages: they are whole models."""
    part = "empty with privacy.on messages: they are compared with whole first models"
    yield "model.shared", bool(whole.model.shared), part


def _beside_messages(whole: Any, wanted: str) -> Iterator[Rule]:
    """Yield the rules that no model reaches others except in the messages that are counted."""
    attack, presence = whole.attack.name, whole.presence
    reads = f"another one with {wanted}: with {attack} attackers know the model of whom they send to"
    yield "attack.name", bool(attack) and ATTACKS[attack].to_each is not None, reads
    copied = f"kept or initial with {wanted}: a neighbour hands over its own model, beside its messages"
    yield "presence.newcomers", presence.in_use(whole) and presence.newcomers == "neighbour", copied


def _of_movement(whole: Any, public: tuple[str, ...]) -> Iterator[Rule]:
    """Yield the rule that no movement tells of labels, unless these are public."""
    if whole.network.graph or whole.server.pattern not in ("", "roadside"):
        return
    name = movement_of(whole).rule
    must = f"one of {', '.join(UNSEEING)}, or privacy.public must have {LABELS}: {name} may move by what clients hold"
    yield "network.mobility", name not in UNSEEING and LABELS not in public, must


def _is_of_weights(path: str) -> bool:
    """Tell whether a model starts from nothing but public weights, and not from the models of a study."""
    file = Path(path)
    return not path or (file.suffix in WEIGHTS and not file.is_dir() and not (file.is_file() and is_saved(file)))
