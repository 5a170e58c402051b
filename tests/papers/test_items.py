"""The verdict on a claim, the choice of items, and the pages made from results files."""

import json
from importlib import import_module

import pytest

from benchmarks.papers import catalogue, devices, foretold, items, page, records
from benchmarks.papers.items import AGREES, DIFFERS, SIGN, UNDECIDED, UNKNOWN, Claim, Item, Outcome, chosen
from mdfl_jax.core.errors import UserError

catalogue.load()


def of(mean, ci95):
    return {"mean": mean, "ci95": ci95}


@pytest.mark.parametrize(
    ("ours", "paper", "sign", "verdict"),
    [
        (of(7, 2), 8, 0, AGREES),
        (of(3, 2), 8, 0, SIGN),
        (of(12, 2), 8, 0, SIGN),
        (of(1, 2), 8, 0, UNDECIDED),
        (of(-3, 2), 8, 0, DIFFERS),
        (of(-7, 2), -8, 0, AGREES),
        (of(7, 2), -8, 0, DIFFERS),
        (of(7, 2), None, 1, AGREES),
        (of(7, 2), None, -1, DIFFERS),
        (of(0, 0), None, 1, UNDECIDED),
        (of(5, None), 5, 0, AGREES),  # one seed: no interval
        (of(None, None), 5, 0, UNKNOWN),
        (of(float("nan"), 1.0), 5, 0, UNKNOWN),
        (True, None, 0, AGREES),
        (False, None, 0, DIFFERS),
        (None, None, 0, UNKNOWN),
    ],
)
def test_the_verdict(ours, paper, sign, verdict):
    assert Claim("a claim", ours, paper, sign=sign).verdict == verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (of(153, 20), DIFFERS),
        (of(120, 20), AGREES),
        (of(153, 136), UNDECIDED),
        (of(96, 20), AGREES),
        (of(90, 20), DIFFERS),
    ],
)
def test_a_level_can_differ_from_the_papers(ours, verdict):
    assert Claim("slots to 70 %", ours, 115, level=True).verdict == verdict


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_diverged_is_unknown_and_none_in_json(bad):
    kept = Claim("a claim", {"mean": bad, "std": float("nan"), "ci95": float("nan")}, 5).as_json()
    assert (kept["verdict"], kept["ours"]) == (UNKNOWN, {"mean": None, "std": None, "ci95": None})
    assert page.ours(kept) == "-"


def test_items_are_chosen_by_name_by_paper_or_all():
    assert [it.name for it in chosen("madfl:t2,dadfl")][:2] == ["madfl:t2", "dadfl:f2"]
    assert len(chosen("all")) == len(items.ITEMS) > len(chosen("madfl")) > 5
    with pytest.raises(UserError, match=r"--item=madfl:t3: unknown item 'madfl:t3' \(did you mean 'madfl:t2'\?\)"):
        chosen("madfl:t3")
    with pytest.raises(UserError, match=r"unknown item 'madlf' \(did you mean 'madfl'\?\)"):
        chosen("madlf")


def test_an_item_of_several_studies_names_them_all_and_what_each_cuts():
    made = Item("pame:f9", "Figure 9", lambda studies: None, ("pame:f9_1000", "pame:f9_5000"))
    assert page.command(made, "paper") == "`configs/pame.py:f9_1000`, `f9_5000`"
    assert page.command(made, "small") == "`configs/pame.py:f9_1000 --scale=small`, `f9_5000`"
    cuts = [["rounds", "300", "600"], ["data.dimension", "250", "1000"]], [["data.dimension", "500", "5000"]]
    found = {"studies": {f"f9_{i}": {"cuts": cut} for i, cut in enumerate(cuts)}}
    told = "`rounds` 300 (600) in 1 of 2 studies, `data.dimension` 250 (1000) or 500 (5000)"
    assert page._cuts(found) == told


def test_a_page_shows_what_was_run_and_what_was_not(tmp_path, monkeypatch):
    made = Item("madfl:t2", "Table II", lambda studies: None, ("madfl:t2",), why="Because of the small CNN.")
    other = Item("madfl:f2", "Figure 2", lambda studies: None, ("madfl:f2",))
    same = Item("madfl:f3", "Figure 3", lambda studies: None, ("madfl:t2",))  # of the same study
    claims = [Claim("DCM over random movement", of(3.0, 1.0), 7.93), Claim("Rc needed: 4", False, told="5")]
    used = {"madfl_t2_small": {"seeds": 6, "runs": 48, "run_seconds": 120, "cuts": [["rounds", "300", "1000"]]}}
    content = records.content(made, "small", Outcome([("final", ["a", "b"], [["1", "2"]])], claims), used)
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    of_seeds = items.ITEMS["variance:t2"]  # nothing is kept of it
    monkeypatch.setattr(page, "ITEMS", {"madfl:t2": made, "madfl:f2": other, "madfl:f3": same, "variance:t2": of_seeds})
    foretold_ = {"madfl:t2": {"DCM over random movement": {"sign": 1}}}
    monkeypatch.setattr(foretold, "kept", lambda: foretold_)
    for name in ("madfl:t2", "madfl:f3"):
        records.path_of(name, "small").write_text(json.dumps(content))
    text, tables = (page.pages()[page.DOCS / name] for name in ("papers.md", "papers_tables.md"))
    row = "| Table II | DCM over random movement | +7.93 points | +3 ± 1 points | **same sign, other size** |"
    assert f"{row} + | small, 6 seeds | `configs/madfl.py:t2 --scale=small` |" in text
    assert "|  | Rc needed: 4 |  | 5 | **differs** |  |  |  |" in text
    assert "| Figure 2 | | | | not run | | | `configs/madfl.py:f2` |" in text
    assert "2 of 3 items were run. Of their claims: 2 same sign, other size, 2 differs." in text
    assert "Because of the small CNN." in text
    assert "Of the 1 claims that both theory and training decide, 1 have the same sign in both." in text
    assert "- t2, f3: `rounds` 300 (1000)" in text
    assert "took 2 minutes" in text
    assert "| 1 | 2 |" in tables
    records.path_of("madfl:t2", "paper").write_text(json.dumps(content | {"scale": "paper"}))
    assert "paper, 6 seeds" in page.pages()[page.DOCS / "papers.md"]  # the larger scale is shown


def test_the_pages_are_those_of_the_results_files():
    for path, text in page.pages().items():
        assert path.read_text() == text, "python -m benchmarks.papers --pages"


def test_what_the_papers_size_needs_on_accelerators(monkeypatch):
    row = {"all_runs": 48, "num_runs": 12, "rounds": 1000, "flops_per_round": 1e12}
    row["bytes"] = {"data": 2**29, "state": 2**29}
    tpu = {"madfl:t2": row | {"study_hours": 0.5, "loops_of_unknown_length": 0}}
    found = {"tpu-v5e": tpu, "h100": {"madfl:t2": row, "thesis:t1": row}}
    monkeypatch.setattr(devices, "rows", found.get)
    assert devices.section("madfl")[-2] == "| `madfl:t2` | f2, f3, f4, f5, f6 | 48 x 1,000 | 48 | 2 | 1 | 1 |"
    assert devices.section("thesis")[-2].endswith("| 48 x 1,000 | 48 | - | - | 1 |")
    assert devices.section("dadfl") == []


def test_every_study_on_accelerators_is_a_preset():
    for stem, item in (name.split(":") for name in devices.STUDIES):
        assert item in import_module(f"configs.{stem}").PRESETS
