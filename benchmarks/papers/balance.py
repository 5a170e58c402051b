"""The item of BALANCE: the claims of its abstract (configs/balance.py). The paper's numbers were not at hand."""

from benchmarks.papers.cells import cell, pivot
from benchmarks.papers.items import Claim, Outcome, item
from benchmarks.papers.studies import Setting, Studies
from configs.balance import ATTACKS, RULES
from mdfl_jax.core.outcomes import interval

WHY = (
    "BALANCE judges a model by its distance from the client's own. In the last 50 rounds honest clients take 97 % of "
    "the attackers' models into their means under label flips, and none under noise and flipped signs "
    "([tables](papers_tables.md)). Label flips take 7.4 points from BALANCE and 3.2 from the median, which is 1.8 "
    "points below BALANCE without an attack."
)
NAMED = {
    **{"mean": "the mean", "median": "the median", "ubar": "UBAR", "self_centred_clipping": "self-centred clipping"},
    **{"label_flip": "label flips", "gaussian": "Gaussian noise", "sign_flip": "sign flips"},
}
REJECTED = {"true_rejections": "of the attackers", "false_rejections": "of honest clients"}


def _at(rule: str, attack: str = "") -> Setting:
    return {"aggregation": rule, "name": attack}


@item("balance:claim", "The abstract: BALANCE does better than other rules under attacks", why=WHY)
def claim(studies: Studies) -> Outcome:
    """Compare BALANCE with other rules under attacks, and what the attacks take from each."""
    study = studies("balance:claim")
    claims = []
    for attack in ATTACKS:
        for rule in RULES[1:]:
            gain = study.gain(_at("balance", attack), _at(rule, attack))
            claims.append(Claim(f"BALANCE over {NAMED[rule]}, {NAMED[attack]}", gain, sign=1))
    for attack in ATTACKS:
        kept = [study.per_seed(**_at(rule, attack)) - study.per_seed(**_at(rule)) for rule in ("balance", "mean")]
        text = f"BALANCE loses less than the mean beside no attack, {NAMED[attack]}"
        claims.append(Claim(text, interval(100 * (kept[0] - kept[1])), sign=1))
    header, rows = pivot(
        study.points, "algorithm.aggregation", "attack.name", lambda p: cell(p["final_accuracy"], 100, 3)
    )
    judged = [
        [NAMED[attack], *(cell(study.point(**_at("balance", attack))[key], 100) for key in REJECTED)]
        for attack in ATTACKS
    ]
    tables = [
        ("accuracy of honest clients (%)", ["rule", "no attack", *header[2:]], rows),
        ("models that BALANCE rejects between the last two evaluations (%)", ["attack", *REJECTED.values()], judged),
    ]
    return Outcome(tables, claims)
