"""Compares a run of mdfl_jax with the slow simulator, evaluation by evaluation."""

import functools

import numpy as np

from mdfl_jax.config import default_config
from mdfl_jax.study import make_study
from tests.reference.draws import Draws
from tests.reference.fast import Batch, resolved
from tests.reference.simulator import Simulator
from tests.reference.task import kept_models

MODELS = 1e-5  # of the size of the models
SCORES = 2e-4  # of a metric that is computed from models: sums over samples and rounds in single precision
SMALL = 3e-3  # values below are compared with this size: the distance of equal models is their rounding
ROUNDING = 1e-7  # of the size of a model, by which single precision may be off
ADAM = 3  # times as far apart: it divides by the size of a gradient, and so by that of a small one's rounding
COUNTS = (
    "messages",
    "bits",
    "seconds",
    "joules",
    "survivors",
    "energy_left",
    "harvested",
    "attacker",
    "released_steps",
    "epsilon",
)
SCORED = ("accuracy", "loss", "mean_model_accuracy", "mean_model_loss", "consensus_distance", "objective",
          "shared_model_accuracy")  # fmt: skip
LARGE = 1e6  # models of a run that explodes are not compared any longer


class DifferenceError(AssertionError):
    """The fast simulator differs from the slow one."""


def away(found, wanted, scale=None):
    """How far two arrays are apart in units of the largest size of ``wanted``; NaN and infinity must agree in place."""
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    if found.shape != wanted.shape or (np.isfinite(found) != np.isfinite(wanted)).any():
        return np.inf
    ok = np.isfinite(wanted)
    if not ok.any():
        return 0.0
    size = scale or max(np.abs(wanted[ok]).max(), SMALL)
    return np.abs(found[ok] - wanted[ok]).max() / size


def difference(t, what, apart, fast, slow):
    """The error of a quantity after round t, with the first numbers of both."""
    fast, slow = (np.array2string(np.asarray(x, float).ravel()[:12], precision=6) for x in (fast, slow))
    return DifferenceError(
        f"after round {t}: {what} is {apart:.2g} of its size away\n  mdfl_jax  {fast}\n  reference {slow}"
    )


def unpacked(bits, n):
    return np.unpackbits(np.asarray(bits, np.uint8), axis=-1, count=n).astype(bool)


def lambda_2(mix):
    return np.linalg.eigvalsh(mix.T @ mix)[-2] if len(mix) > 1 else 0.0


class Expected:
    """The values of the metrics from the records of the rounds since the last evaluation."""

    def __init__(self, slow, records):
        self.n, self.records, self.scores = slow.n, records, slow.evaluate()

    def total(self, name):  # in a round without it, as one in which a recursion waits, there was none of it
        return sum(np.asarray(each.get(name, 0), float) for each in self.records)

    def mean(self, name):
        return self.total(name) / len(self.records)

    def over_works(self, name):
        if "works" not in self.records[0]:
            return self.mean(name)
        works = self.total("works")
        return np.where(works > 0, self.total(name) / np.maximum(works, 1), np.nan)

    def share(self, part, whole):
        parts, of = self.total(part), self.total(whole)
        return np.where(of > 0, parts / np.maximum(of, 1), np.nan)

    def rejections(self, name):
        some, of = self.total(name)
        return np.array([some / of, of]) if of else np.full(2, np.nan)

    def values(self):
        """The metrics by name: exact ones, and (computed from models) those that are compared less sharply."""
        last, have = self.records[-1], set().union(*self.records)
        exact = {name: reduced(self) for name, reduced in REDUCED.items() if name in have}
        exact |= {name: np.stack([each[name] for each in self.records]) for name in RECORDS if name in have}
        exact |= {name: self.scores[name] for name in COUNTS if name in self.scores}
        exact["lambda_2"] = lambda_2(last["mix"])
        scored = {name: self.scores[name] for name in SCORED if name in self.scores}
        scored["train_loss"] = self.over_works("train_loss")
        return exact, scored


MEANS = ("num_neighbours", "num_heard", "share_present", "contamination", "fell_back", "within_radius")
REDUCED = {
    **{name: lambda at, name=name: at.mean(name) for name in MEANS},
    **{name: lambda at, name=name: at.rejections(name) for name in ("true_rejections", "false_rejections")},
    "works": lambda at: at.total("works"),
    "staleness": lambda at: at.over_works("staleness"),
    "outage": lambda at: at.share("outage", "within_radius"),
    "link_rate": lambda at: at.share("link_rate", "num_neighbours"),
}
RECORDS = ("links", "heard", "rejected", "present", "met_server", "relay_upload", "relay_download")


def slow_run(batch, index, found, rounds=None):
    """The slow simulator of a run; ``rounds`` are draws by which places, first models and heard ones are rounded."""
    given, c = batch.given(index, found), resolved(batch.experiments[index])
    if c["model.pretrained"]:
        given["models"] = kept_models(c, given["leaves"])
    if rounds is not None:
        rng = np.random.default_rng(rounds)
        given["rounded"] = lambda x: x + ROUNDING * max(np.abs(x).max(initial=0), 0.1) * rng.normal(size=x.shape)
        given["models"] = given["rounded"](given["models"])
        if c["network.world"] == "plane":  # cells of a grid are exact
            given["seen"] = [seen | {"position": given["rounded"](seen["position"])} for seen in given["seen"]]
    return Simulator(c, Draws(batch.key(index), batch.simulation.num_clients), given)


def evaluations(batch, index, found, rounds=None):
    """Yields (fast, slow simulator, records since the last evaluation) for each evaluation."""
    slow, every, t = slow_run(batch, index, found, rounds), batch.simulation.schedule.eval_every, 0
    for fast in found[index][1:]:
        records = [slow.round(t + k) for k in range(every)]
        t += every
        yield t, fast, slow, records


def compare(batch, index, found):
    """Compares one run.

    Raises:
      DifferenceError: naming the round, the quantity and the numbers.
    """
    for t, fast, slow, records in evaluations(batch, index, found):
        models = slow.algorithm.models
        honest = slow.honest
        if not np.isfinite(models[honest]).all() or np.abs(models[honest]).max() > LARGE:
            return
        told = functools.partial(difference, t)
        exact, scored = Expected(slow, records).values()
        for name, wanted in exact.items():
            if name not in fast.metrics:
                if name in ("heard", "present", "met_server", "relay_upload", "relay_download"):
                    continue
                raise DifferenceError(f"after round {t}: mdfl_jax has no metric {name}")
            value = fast.metrics[name]
            if name in ("links", "heard", "rejected"):
                value = unpacked(value, slow.n)
            apart = away(value, wanted, 1.0 if name == "lambda_2" else None)  # single precision knows zero to 1e-7
            if apart > (0 if np.asarray(wanted).dtype.kind in "bi" else MODELS * 3):
                raise told(name, apart, value, wanted)
        most = MODELS * max(1, t / 4) * (ADAM if slow.c["algorithm.optimizer"] == "adam" else 1)
        for i in range(slow.n):
            size = max(np.abs(models[i]).max(), 0.1)
            if (apart := away(fast.models[i], models[i], size)) > most:
                raise told(f"the model of client {i}", apart, fast.models[i], models[i])
        for name, wanted in scored.items():
            far = name == "consensus_distance" and np.abs(models[honest]).max() > 1  # equal models, far from zero
            scale = max(np.max(wanted), SMALL * np.abs(models[honest]).max() ** 2) if far else None
            apart = away(fast.metrics[name], wanted, scale)
            if apart > SCORES and not is_undecided(name, fast.metrics[name], wanted, slow):
                raise told(name, apart, fast.metrics[name], wanted)


def is_undecided(name, value, wanted, slow):
    """Whether accuracies differ by test samples on the border between two labels alone."""
    share = slow.evaluate()["undecided"].get(name)
    return share is not None and np.all(np.abs(value - wanted) <= share + SCORES)


def kept(slow):
    """The models of the clients, and those that they exchange in place of these."""
    models, exchanged = slow.algorithm.models.copy(), slow.algorithm.exchanged_models
    return models if exchanged is None else np.concatenate([models, exchanged])


def is_on_an_edge(batch, index, found):
    """Whether models that differ by rounding alone lead to other results: a choice between equals, not judged.

    Where two are equal, half of the roundings choose as mdfl_jax does. Where single precision has drifted for some
    rounds, as few as a tenth do, so many are tried.
    """
    plain = [(kept(slow), r) for _, _, slow, r in evaluations(batch, index, found)]
    return any(differs(plain, evaluations(batch, index, found, rounds)) for rounds in range(32))


TOLD = {"rejected": 0, "heard": 0, "true_rejections": 0, "link_rate": 3 * MODELS, "train_loss": SCORES}
"""What records say of a choice, and from which distance on. The loss is that of shared models, as those of Ditto."""


def differs(plain, moved):
    """Whether models move by more than is told apart, or other models are used or heard."""
    for (x, before), (_, _, slow, after) in zip(plain, moved):
        for i, y in enumerate(kept(slow)):
            if away(y, x[i], max(np.abs(x[i]).max(), 0.1)) > MODELS:
                return True
        for a, b in zip(before, after):
            for name, most in TOLD.items():
                if name in a and away(a[name], b[name]) > most:
                    return True
    return False


def judge(changes):
    """Runs the study of some changes of the default configuration, values by path, on both.

    Returns:
      "equal" or "edge" of each run, run after run of each point.

    Raises:
      UserError: if mdfl_jax refuses it.
      DifferenceError: if a run differs.
    """
    config = default_config()
    config.update_from_flattened_dict(changes)
    study, verdicts = make_study(config), []
    for group in study.groups:
        batch = Batch(study, group)
        found = batch.compute()
        for index, run in enumerate(batch.runs):
            try:
                compare(batch, index, found)
                verdicts.append((run.point, "equal"))
            except DifferenceError as error:
                if not is_on_an_edge(batch, index, found):
                    raise DifferenceError(f"{run}: {error}") from None
                verdicts.append((run.point, "edge"))
    return verdicts
