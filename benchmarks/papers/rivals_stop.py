"""PaME against its rivals until convergence: figures 9 and 10, by the paper's stop rule and to the target accuracy."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.papers import rivals
from benchmarks.papers.cells import cell
from benchmarks.papers.items import Claim, Outcome, Rows, Table
from benchmarks.papers.rivals import ALGORITHMS, BITS, FINAL, ROUNDS, Best, M, ahead, least
from benchmarks.papers.studies import Studies
from configs.pame import RIVALS
from mdfl_jax.core.outcomes import VALIDATION_LOSS

Size = tuple[int, int]  # n, m
Bits = Callable[[dict[str, Any]], float | None]  # of a sweep point

STOP = "rounds_to_stop"
STUDIES = ("pame:f9_1000", "pame:f9_5000", "pame:f9_10000")
WHY_STOP = (
    "PaME's steps shrink by gamma^k, so the objective comes to rest, and the stop rule ends the run: with m = 32 and "
    "64 two to eight points below the best rival's accuracy, with m = 128 one to six. With n = 250 and m = 32 D-PSGD "
    "and DFedSAM stop sooner. To 75 % all rivals need fewer rounds on average, as in figure 8, which has the paper's "
    "n = 1,000 and samples; BEER needs more than PaME in one of nine settings (docs/pame.md)."
)
WHY_VOLUME = (
    "A message of PaME costs 7.4 bits a coordinate (13.6 as the paper counts), a whole model 32 (64), one of ANQ-NIDS "
    "1.6 to 4.4. So PaME saves against whole models, the more nodes the more, and not by half against ANQ-NIDS "
    "(docs/pame.md). To 75 % it needs more rounds than they do (figure 9), so it saves 8 to 76 % of what whole models "
    "send, and against BEER, whose messages are as long, up to 77 % or loses 23 %."
)


def _stops(studies: Studies, by: str) -> dict[Size, Best]:
    """Return the chosen points of the studies of figures 9 and 10, by n and m."""
    found: dict[Size, Best] = {}
    for preset in STUDIES:
        study = studies(preset)
        n = rivals.config_of(study)["data"]["dimension"]
        rounds = rivals.config_of(study)["rounds"]
        for m in M:
            chosen = rivals.best(study, by, rivals.plain, num_clients=m)
            found[n, m] = {name: point | {STOP: _ends(point, rounds)} for name, point in chosen.items()}
    return found


def _ends(point: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return the iterations after which the rule ended the runs, None where it did not within those that were run."""
    done = point["rounds_done"]
    ends = [None if of >= rounds else of for of in done["per_seed"]]
    return {"per_seed": ends, "mean": None if None in ends else done["mean"]}


def _at_stop(show: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """Return how a number is shown at the stop: that of runs that have not stopped is only reached, with a '>'."""

    def shown(point: dict[str, Any]) -> str:
        told = show(point)
        return f"> {told}" if point[STOP]["mean"] is None and told != "-" else told

    return shown


def _each(title: str, found: dict[Size, Best], show: Callable[[dict[str, Any]], str]) -> Table:
    rows = []
    for (n, m), of in found.items():
        rows.append([f"{n}, {m}", *(show(of[name]) if name in of else "diverged" for name in ALGORITHMS)])
    return (title, ["n, m", *ALGORITHMS], rows)


def figure_9(studies: Studies) -> Outcome:
    """Compare the iterations to the paper's stop rule, and the rounds to 75 %."""
    at_stop, to_target = _stops(studies, VALIDATION_LOSS), _stops(studies, ROUNDS)
    done = _at_stop(lambda p: cell(p["rounds_done"]))
    tables = [
        _each("iterations to the stop, chosen by the validation loss", at_stop, done),
        _each("accuracy at the stop (%)", at_stop, lambda p: cell(p[FINAL], 100)),
        _each("rounds to 75 %, chosen by these", to_target, lambda p: rivals.reached(p, ROUNDS)),
    ]
    config = rivals.config_of(studies("pame:f9_1000"))
    horizon, every = config["rounds"], config["eval_every"]
    fewer = lambda than: f"PaME needs fewer {than} than {{}}: how many fewer, mean over all settings"  # noqa: E731
    fewest = "PaME needs the fewest iterations to the stop in every setting"
    claims = [
        least(fewest, at_stop, lambda p: p[STOP]["mean"]),
        *ahead(fewer("iterations to the stop"), at_stop.values(), STOP, "iterations", -1, horizon=horizon),
        least("PaME needs the fewest rounds to 75 % in every setting", to_target, lambda p: p[ROUNDS], own=True),
        *ahead(fewer("rounds to 75 %"), to_target.values(), ROUNDS, "rounds", -1, 1, horizon, every=every, own=True),
    ]
    return Outcome(tables, claims)


def figure_10(studies: Studies) -> Outcome:
    """Compare the bits to the paper's stop rule, and those to 75 %, in our count and in the paper's."""
    at_stop, to_target = _stops(studies, VALIDATION_LOSS), _stops(studies, BITS)
    sent, in_double = (lambda p: p["bits_sent_per_client"]), (lambda p: p["double_bits_per_client"])
    ended = lambda p: sent(p) if p[STOP]["mean"] is not None else None  # noqa: E731
    told, told_double = _at_stop(lambda p: mbit(sent(p))), _at_stop(lambda p: mbit(in_double(p)))
    mbit = lambda bits: "-" if bits is None else f"{bits / 1e6:.3g}"  # noqa: E731
    tables = [
        _each("Mbit a node to the stop, chosen by the validation loss", at_stop, told),
        _each("the same as the paper counts (which does not cover anq)", at_stop, told_double),
        _each("Mbit a node to 75 %, chosen by these", to_target, lambda p: mbit(p[BITS])),
        ("bits of a message a coordinate", ["n, m", *ALGORITHMS], _message_rows(at_stop)),
    ]
    claims = [
        least("PaME sends the least to the stop in every setting", at_stop, ended),
        *_savings(at_stop, "to the stop", sent, ended),
        *_savings(at_stop, "to the stop, as the paper counts", in_double, ended, RIVALS[:-1]),
        least("PaME sends the least to 75 % in every setting", to_target, lambda p: p[BITS], own=True),
        *_savings(to_target, "to 75 %", lambda p: p[BITS], lambda p: p[BITS], own=True),
    ]
    return Outcome(tables, claims)


def _message_rows(found: dict[Size, Best]) -> Rows:
    """Return the rows of the table of the bits that a message has for each of the n coordinates."""
    rows = []
    for (n, m), of in found.items():
        sent = [of[name]["bits_sent_per_client"] if name in of else 0.0 for name in ALGORITHMS]
        messages = [of[name]["messages_per_client"] if name in of else 0.0 for name in ALGORITHMS]
        rows.append([f"{n}, {m}", *(f"{b / k / n:.3g}" if k else "-" for b, k in zip(sent, messages))])
    return rows


def _savings(
    found: dict[Size, Best], where: str, bits: Bits, ended: Bits, names: Sequence[str] = RIVALS, own: bool = False
) -> list[Claim]:
    """Return the claims that PaME sends at least 50 % less than each of some rivals in most settings.

    A setting in which PaME itself has not ended, or the rival has sent nothing that can be compared, is left out, and
    how many these are is told. A rival that has not ended counts with what it has sent so far, which is less.
    """
    claims = []
    for rival in names:
        pairs = [
            (bits(of["pame"]), bits(of[rival]))
            for of in found.values()
            if "pame" in of and rival in of and ended(of["pame"]) is not None
        ]
        saved = [1 - ours / theirs for ours, theirs in pairs if ours is not None and theirs]
        half, without = sum(share >= 0.5 for share in saved), len(found) - len(saved)
        words = f"in {half} of {len(saved)}; {min(saved):+.0%} to {max(saved):+.0%}" if saved else ""
        words += f"; {without} of {len(found)} not comparable" if saved and without else ""
        text = f"PaME sends at least 50 % less than {rival} {where}, in most comparable settings"
        claims.append(Claim(text, 2 * half > len(saved) if saved else None, told=words, own=own))
    return claims
