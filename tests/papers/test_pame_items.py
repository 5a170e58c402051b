"""PaME's items on made-up studies: who is chosen by what, which claims hold, and what is compared with what."""

import json

import numpy as np
import pytest

from benchmarks.papers import catalogue, rivals
from benchmarks.papers.items import AGREES, DIFFERS, ITEMS, UNKNOWN
from benchmarks.papers.studies import Study
from configs import pame
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.outcomes import with_seeds

catalogue.load()
FIGURES = [f"pame:f{figure}" for figure in range(2, 13)]
SPREAD = np.array([0.99, 1.0, 1.01])  # of three seeds


def entry(point, **numbers):
    """An entry of summary.json in which PaME is bad at everything but the number of bits of D-PSGD."""
    name = point.overrides.get("algorithm.name", "pame")
    lr = point.overrides.get("algorithm.lr", 1)
    rounds = numbers.get("rounds", {"pame": 200}.get(name, 100) * (1 + abs(np.log10(lr))))
    bits = {"pame": 4e5, "dpsgd": 1e6, "dfedsam": 5e5, "anq_nids": 1e5}.get(name, 1e6) * (2 + np.log10(lr)) / 2
    spread = lambda value: with_seeds(value * SPREAD)  # noqa: E731
    return {
        "id": point.id,
        "overrides": point.overrides,
        "diverged": {},
        "validation_loss": spread(1 + abs(lr - 0.3)),
        "final_accuracy": spread(0.8 if name == "pame" else 0.9),
        "objective": spread(point.overrides.get("network.num_clients", 64) * 0.125),
        "rounds_done": spread(rounds),
        "rounds_to_target": rounds,
        "rounds_to_target_per_seed": list(rounds * SPREAD),
        "bits_to_target": bits,
        "bits_to_target_per_seed": list(bits * SPREAD),
        "bits_sent_per_client": 2 * bits,
        "double_bits_per_client": None if name == "anq_nids" else 4 * bits,
        "messages_per_client": 100.0,
        "run_seconds": 1.0,
    }


class MadeUp:
    """Studies of presets that nobody has run."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, preset):
        experiment = resolve(pame.get_config(f"{preset.partition(':')[2]},scale=small"))
        workdir = self.folder / preset.replace(":", "-")
        workdir.mkdir(exist_ok=True)
        config = {"rounds": experiment.rounds, "data": {"dimension": experiment.data.dimension}}
        (workdir / "config.json").write_text(json.dumps({"config": config}))
        (workdir / "summary.json").write_text(json.dumps({"points": [entry(p) for p in points(experiment)]}))
        return Study(workdir)


@pytest.fixture
def studies(tmp_path):
    return MadeUp(tmp_path)


@pytest.mark.parametrize("name", FIGURES)
def test_every_item_finds_its_points_and_measures_all_claims(name, studies):
    outcome = ITEMS[name].make(studies)
    assert outcome.tables
    assert outcome.claims
    for _, header, rows in outcome.tables:
        assert rows
        assert all(len(row) == len(header) for row in rows)
    assert UNKNOWN not in {claim.verdict for claim in outcome.claims}
    texts = [claim.text for claim in outcome.claims]
    assert len(set(texts)) == len(texts)


def test_rivals_are_chosen_by_what_is_judged_and_constants_too(studies):
    """The loss is least at lr = 0.3, the rounds at 1 and the bits at the smallest step."""
    study = studies("pame:f9_1000")
    chosen = lambda by: rivals.best(study, by, rivals.plain, num_clients=64)  # noqa: E731
    steps = lambda by: {name: p["overrides"]["algorithm.lr"] for name, p in chosen(by).items()}  # noqa: E731
    assert set(steps("validation_loss").values()) == {0.3}
    assert set(steps("rounds_to_target").values()) == {1}
    grids = {name: min(grid[0]) for name, grid in pame.REGRESSION.items()}
    assert steps("bits_to_target") == grids
    tried = {p["overrides"]["algorithm.consensus_lr"] for p in study.matching(name="beer")}
    assert tried == set(pame.REGRESSION["beer"][1])


def test_the_objective_saturates_where_graph_and_messages_are_not_the_smallest(studies):
    """V-C4: unless the graph is extremely sparse or the transmission rate is minimal."""

    def made(worse):
        study = studies("pame:f7")
        for point in study.points:
            if (point["overrides"]["graph.probability"], point["overrides"]["algorithm.transmission"]) in worse:
                point["objective"] = with_seeds(64 * 0.2 * SPREAD)
        claims = ITEMS["pame:f7"].make(lambda preset: study).claims
        return {claim.verdict for claim in claims if "saturates" in claim.text}

    assert made({(0.1, 0.6), (0.6, 0.1)}) == {AGREES}
    assert made({(0.2, 0.2)}) == {DIFFERS}


def test_claims_have_the_verdicts_of_the_numbers(studies):
    verdicts = {claim.text: claim.verdict for claim in ITEMS["pame:f10"].make(studies).claims}
    assert verdicts["PaME sends at least 50 % less than dpsgd to the stop, in most comparable settings"] == AGREES
    assert verdicts["PaME sends at least 50 % less than anq_nids to the stop, in most comparable settings"] == DIFFERS
    assert verdicts["PaME sends the least to the stop in every setting"] == DIFFERS
    verdicts = {claim.text: claim.verdict for claim in ITEMS["pame:f9"].make(studies).claims}
    assert set(verdicts.values()) == {DIFFERS}


def test_runs_that_have_not_stopped_have_no_order(studies):
    """What they have sent so far is the least that they send, so it counts against a PaME that has stopped."""

    def made(name, going):
        def finished(preset):
            study = studies(preset)
            for point in study.points:
                if point["overrides"]["algorithm.name"] in going:
                    point["rounds_done"] = with_seeds(600 * np.ones(3))
            return study

        return ITEMS[name].make(finished)

    everybody = {claim.text: claim.verdict for claim in made("pame:f9", rivals.ALGORITHMS).claims}
    assert {verdict for text, verdict in everybody.items() if "to the stop" in text} == {UNKNOWN}
    others = made("pame:f9", pame.RIVALS)
    assert {claim.verdict for claim in others.claims if "to the stop" in claim.text} == {AGREES}
    assert [cell.startswith("> ") for cell in others.tables[0][2][0]] == [False, False, True, True, True, True]
    ours = {claim.text: claim.verdict for claim in made("pame:f10", ["pame"]).claims}
    assert {verdict for text, verdict in ours.items() if "less" in text and "to the stop" in text} == {UNKNOWN}
    theirs = {claim.text: claim.verdict for claim in made("pame:f10", pame.RIVALS).claims}
    assert theirs["PaME sends at least 50 % less than dpsgd to the stop, in most comparable settings"] == AGREES


def test_an_unreached_target_counts_as_the_horizon_against_a_reached_one():
    made = lambda rounds: {"rounds_to_target_per_seed": rounds}  # noqa: E731
    found = [{"pame": made([50, None, None]), **dict.fromkeys(pame.RIVALS, made([None, 80, None]))}]
    for claim in rivals.ahead("than {}", found, "rounds_to_target", "rounds", -1, horizon=100):
        assert claim.ours["mean"] != claim.ours["mean"]  # the third seed is unknown
    found = [{"pame": made([50, None]), **dict.fromkeys(pame.RIVALS, made([None, 80]))}]
    for claim in rivals.ahead("than {}", found, "rounds_to_target", "rounds", -1, horizon=100):
        assert claim.ours["mean"] == (50 - 20) / 2
