"""What theory foretells of the claims of MADFL and DADFL, from their networks alone, without training.

Their claims compare settings that differ in movement and radio: the rule, M, Rc and Rm. So an item is made once more,
with 1 / B in place of the accuracies, where B is the effective B of the union windows of a network (`mdfl theory`):
from a round on, the fewest rounds whose links, together, connect all clients. Networks are cheap, so there are many
more seeds than training has.

All that is known of how the accuracy depends on B is its direction. So theory foretells a claim only if powers of 1 / B
with small and large exponents give it the same sign, each with a 95 % interval over the seeds that leaves out zero.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from benchmarks import measure
from benchmarks.papers import records
from benchmarks.papers.items import ITEMS
from benchmarks.papers.studies import Statistic, Studies, Study
from mdfl_jax.core.outcomes import interval

PAPERS = ("madfl", "dadfl")
SEEDS = 100
QUANTITY = "effective_b"
EXPONENTS = (1.0, 0.5, 2.0)
FILE = Path(__file__).parents[1] / "results" / "papers_foretold.json"


class Network(Study):
    """The network of a study: 1 / B to some power stands for the accuracies of its sweep points."""

    def __init__(self, name: str, effective: Sequence[tuple[Mapping[str, Any], np.ndarray]], exponent: float):
        self.workdir, self.points = Path(name), []
        for point, b in effective:
            values = b**-exponent / 100  # items show per cent
            accuracy = {**interval(values), "per_seed": list(values)}
            self.points.append({**point, "final_accuracy": accuracy, "best_accuracy": accuracy, "diverged": False})


class Networks(Studies):
    """The networks of the studies of an item.

    Attributes:
      exponent: the power of 1 / B that stands for the accuracies.
    """

    exponent = 1.0

    def __init__(self, scale: str, seeds: int):
        super().__init__(scale, Path(), seeds)
        self._effective: dict[str, list[tuple[dict[str, Any], np.ndarray]]] = {}

    def of(self, config: ConfigDict, paper: ConfigDict | None = None) -> Study:
        """Return the network of the study of a configuration."""
        if config.name not in self._effective:
            self._effective[config.name] = effective(config, self.least)
        return Network(config.name, self._effective[config.name], self.exponent)


def effective(config: ConfigDict, seeds: int) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Return the points of a configuration, each with the effective B [S] of its network, which may be infinite."""
    from mdfl_jax.config.points import points
    from mdfl_jax.config.resolve import resolve
    from mdfl_jax.contrib.theory import network

    alone, found = network.alone(config, seeds, 0), []
    every = points(resolve(alone))
    for point, observed in zip(every, network.of_config(alone, every, [QUANTITY])):
        assert observed is not None  # the clients of both papers mix their models
        found.append(({"id": point.id, "overrides": point.overrides}, observed.values[QUANTITY]))
    return found


def sign_of(differences: Sequence[Statistic]) -> int:
    """Return the sign that all differences have, with intervals that leave out zero; 0 if they do not.

    >>> sign_of([{"mean": 2.0, "ci95": 1.0}, {"mean": 0.1, "ci95": 0.05}]), sign_of([{"mean": 2.0, "ci95": 3.0}])
    (1, 0)
    """
    signs = {int(np.sign(of["mean"])) if abs(of["mean"]) > of["ci95"] else 0 for of in differences}
    return signs.pop() if len(signs) == 1 else 0


def foretell(name: str, networks: Networks) -> dict[str, dict[str, Any]]:
    """Return the differences of 1 / B behind the claims of an item about differences, each with the foretold sign."""
    powers = []
    for networks.exponent in EXPONENTS:
        claims = ITEMS[name].make(networks).claims
        powers.append({claim.text: claim.ours for claim in claims if isinstance(claim.ours, Mapping)})
    return {text: {**ours, "sign": sign_of([power[text] for power in powers])} for text, ours in powers[0].items()}


def write() -> None:
    """Foretell the claims about differences of all items of the papers that were run, and keep this for the pages."""
    claims = {}
    for name in ITEMS:
        of_training = (records.kept(name) or {"claims": []})["claims"]
        if name.partition(":")[0] in PAPERS and any(isinstance(claim["ours"], Mapping) for claim in of_training):
            claims[name] = found = foretell(name, Networks(records.scale_of(name), SEEDS))
            print(f"{name}: {sum(of['sign'] != 0 for of in found.values())} of {len(found)} claims", flush=True)
    FILE.write_text(json.dumps({"seeds": SEEDS, **measure.machine(), "claims": claims}, indent=1) + "\n")
    print(FILE)


def kept() -> dict[str, dict[str, Any]]:
    """Return what theory foretells by item and claim, from the results file."""
    return json.loads(FILE.read_text())["claims"] if FILE.exists() else {}


def tells(paper: str) -> bool:
    """Return whether anything is foretold of the claims of a paper."""
    return any(name.partition(":")[0] == paper for name in kept())


def summary() -> str:
    """Return in words how many claims theory foretells, and how often training came out so; "" if nothing is kept."""
    foretold, signs = kept(), list[tuple[bool, bool]]()
    if not foretold:
        return ""
    for name, claims in foretold.items():
        for claim in (records.kept(name) or {"claims": []})["claims"]:
            sign = claims.get(claim["text"], {"sign": 0})["sign"]
            if sign and isinstance(claim["ours"], Mapping) and claim["ours"]["mean"] is not None:
                mean, half = claim["ours"]["mean"], claim["ours"]["ci95"] or 0.0
                signs.append((abs(mean) > half, sign * mean > 0))
    decided, open_ = ([same for is_decided, same in signs if is_decided == which] for which in (True, False))
    return (
        f"**Theory.** For MADFL and DADFL the column *theory* has what the networks alone say, with {SEEDS} seeds and"
        " no training: + if the paper's claim follows from the effective B of the links ([theory](theory.md)), - if its"
        " opposite does, and nothing if B leaves it open (`benchmarks/papers/foretold.py`). Of the"
        f" {len(decided)} claims that both theory and training decide, {sum(decided)} have the same sign in both."
        f" Theory decides {len(open_)} more that training leaves undecided; the means over the seeds have its sign in"
        f" {sum(open_)} of them. 1 / B has no ceiling, and accuracy has one, so the sign of a difference between two"
        " leads is no more than a guess."
    )
