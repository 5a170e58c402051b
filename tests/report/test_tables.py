"""The tables: numbers worked out by hand, which columns of the page say something, and by what they are sorted."""

import csv
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdfl_jax.report import tables
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.tables import page_columns
from tests.report.made_report import edit

Maker = Callable[..., Path]


def point(name: str, overrides: dict[str, Any], accuracy: list[float], **others: Any) -> dict[str, Any]:
    return {
        "id": name,
        "overrides": overrides,
        "final_accuracy": {"mean": accuracy[0], "std": 0.02, "ci95": accuracy[1], "per_seed": [0.5, 0.5, 0.5]},
        "worst_client_accuracy": {"mean": 0.25, "std": 0.1, "ci95": 0.0314, "per_seed": [0.2, 0.25, 0.3]},
        **others,
    }


@pytest.fixture
def summary() -> dict[str, Any]:
    static = point(
        "static",
        {"network.mobility": "static", "algorithm.name": "dpsgd", "rounds": 40},
        [0.61239, 0.01],
        difference_to_baseline=None,
        rounds_to_target=None,
        bits_sent_per_client=1.6e9,
        distance_moved_per_mobile_client=0.0,
    )
    dcm = point(
        "dcm",
        {"network.mobility": "dcm", "algorithm.name": "dpsgd", "rounds": 40},
        [0.7, 0.025],
        difference_to_baseline={"mean": 0.08761, "ci95": 0.005},
        rounds_to_target=120,
        bits_sent_per_client=2.5e6,
        distance_moved_per_mobile_client=1234.5678,
    )
    return {"schema": 1, "baseline": "static", "points": [static, dcm]}


def test_printed_numbers_are_those_worked_out_by_hand(summary: dict[str, Any]) -> None:
    header, rows = tables.table(summary)
    assert header[:2] == ["mobility", "accuracy (%)"]  # the settings that do not differ have no column
    assert rows[0] == ["static", "61.24 ± 1.00", "baseline", "25.00 ± 3.14", "-", "200", "0"]
    assert rows[1] == ["dcm", "70.00 ± 2.50", "+8.76 ± 0.50", "25.00 ± 3.14", "120", "0.312", "1235"]


def test_terminal_text_is_ascii_and_aligned(summary: dict[str, Any]) -> None:
    lines = tables.text(summary, {"target": 0.7}).splitlines()
    above = next(i for i, line in enumerate(lines) if set(line) == {"-"})
    assert lines[above - 1].startswith("mobility")  # headings of several lines stand on the rule
    assert lines[above + 1].startswith("static")
    assert len({len(line) for line in lines[above - 1 : above + 3]}) == 1
    assert "70.00 +- 2.50" in lines[above + 2]
    assert "target: 70 %" in lines[-1]
    assert "\n".join(lines).isascii()


def test_missing_values_are_dashes_and_empty_cells(summary: dict[str, Any]) -> None:
    bare = summary["points"][1]
    for key in ("difference_to_baseline", "worst_client_accuracy", "rounds_to_target", "bits_sent_per_client"):
        bare[key] = None
    del bare["distance_moved_per_mobile_client"]
    assert tables.table(summary)[1][1] == ["dcm", "70.00 ± 2.50", "-", "-", "-", "-", "-"]
    assert tables.raw_table(summary)[1][1] == ["dcm", "dcm", 0.7, 0.025, *[None] * 10, 3, 0]


def test_settings_that_share_a_name_are_told_apart_and_may_be_those_of_the_configuration(
    summary: dict[str, Any],
) -> None:
    for entry, rate in zip(summary["points"], (0.1, 0.2)):
        entry["overrides"] |= {"algorithm.lr": rate, "model.lr": rate, "data.name": f"set{rate}"}
    assert tables.table(summary)[0][:4] == ["mobility", "algorithm.lr", "model.lr", "data"]
    del summary["points"][0]["overrides"]["network.mobility"]
    for config, value in (({"network": {"mobility": "static"}}, "static"), ({}, "-")):
        header, rows = tables.table(summary, config)
        assert dict(zip(header, rows[0]))["mobility"] == value


def test_the_note_names_the_baseline_and_pairs_that_do_not_share_their_data(summary: dict[str, Any]) -> None:
    assert "to the baseline static" in tables.note(summary)
    assert "not the same data" not in tables.note(summary)
    summary["points"][1]["overrides"]["data.alpha"] = 1.0
    assert "; pairs that differ in data.alpha share the seed, but not the same data" in tables.note(summary)
    summary["points"][0]["overrides"]["data.alpha"] = 1.0  # the baseline has it as well
    assert "not the same data" not in tables.note(summary)
    summary["points"][1]["difference_to_baseline"] = None
    assert "baseline" not in tables.note(summary)


def test_csv_holds_raw_numbers(reported: Any) -> None:
    run = read_workdir(reported)
    with open(reported / "tables" / "summary.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["mobility"] for row in rows] == ["static", "random_movement", "dam", "dcm"]
    for row, entry in zip(rows, run.points):
        assert float(row["accuracy_mean"]) == entry["final_accuracy"]["mean"]
        assert float(row["megabytes_sent_per_client"]) == entry["bits_sent_per_client"] / 8e6
    assert rows[0]["difference_mean"] == rows[0]["rounds_to_target"] == ""
    assert rows[3]["rounds_to_target"] == "10"


def edited(folder: Path, *changes: dict[str, object]) -> Path:
    """The workdir with changed entries of the points of its summary, one dict for each point."""
    return edit(folder, points=lambda points: [p | c for p, c in itertools.zip_longest(points, changes, fillvalue={})])


def test_cells_have_the_text_of_the_printed_table_and_the_exact_number(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir(rounds=10))
    found = {column.key: column for column in page_columns(run)}
    header, rows = tables.table(run.summary, run.config)
    printed = dict(zip(header, zip(*rows)))
    for key, title in (
        ("final_accuracy", "accuracy (%)"),
        ("worst_client_accuracy", "worst client (%)"),
        ("rounds_to_target", "rounds to target"),
        ("bits_sent_per_client", "MB sent/client"),
        ("distance_moved_per_mobile_client", "distance/mobile"),
    ):
        assert [cell.text for cell in found[key].cells] == list(printed[title]), key
    exact = [100 * point["final_accuracy"]["mean"] for point in run.points]
    assert [cell.number for cell in found["final_accuracy"].cells] == exact
    assert found["final_accuracy"].best == exact.index(max(exact))
    assert found["bits_sent_per_client"].cells[0].number == 200.0  # 1.6e9 bits
    assert found["rounds_to_target"].title == "rounds to 70 %"
    assert found["network.mobility"].cells[1] == ("random movement", None)


def test_a_column_of_zeros_or_of_nothing_is_left_out_of_the_page_but_not_of_the_csv(make_workdir: Maker) -> None:
    nothing = {"distance_moved_per_mobile_client": 0.0, "rounds_to_target": None, "worst_client_accuracy": None}
    folder = edited(make_workdir(rounds=10), *[nothing] * 4)
    keys = [column.key for column in page_columns(read_workdir(folder))]
    assert keys == ["network.mobility", "final_accuracy", "difference_to_baseline", "bits_sent_per_client"]
    run = read_workdir(folder)
    assert {"distance_moved_per_mobile_client", "rounds_to_target"} <= set(tables.raw_table(run.summary)[0])
    some = edited(folder, {"distance_moved_per_mobile_client": 0.5})
    assert "distance_moved_per_mobile_client" in [column.key for column in page_columns(read_workdir(some))]


def test_the_baseline_has_a_difference_of_zero_and_its_name_in_the_heading(make_workdir: Maker) -> None:
    ids = ["static", "random_movement", "dam", "dcm"]
    folder = edited(make_workdir(rounds=10), *[{"id": name, "baseline": "random_movement"} for name in ids])
    found = {column.key: column for column in page_columns(read_workdir(folder))}["difference_to_baseline"]
    assert found.title == "difference to random movement (points)"
    assert found.cells[1] == ("baseline", 0.0)
    edited(folder, {"baseline": "dam"})  # each of two groups of points has its own
    found = {column.key: column for column in page_columns(read_workdir(folder))}["difference_to_baseline"]
    assert found.title == "difference to the baseline (points)"
