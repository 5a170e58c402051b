"""The table of the page: which columns say something, and the numbers by which they are sorted."""

import json
from collections.abc import Callable
from pathlib import Path

from mdfl_jax.report import tables
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.tables import colours, page_columns

Maker = Callable[..., Path]


def edited(folder: Path, *changes: dict[str, object]) -> Path:
    """The workdir with changed entries of the points of its summary, one dict for each point."""
    summary = json.loads((folder / "summary.json").read_text())
    for point, change in zip(summary["points"], changes):
        point |= change
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


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
    assert len(colours(run)) == len(run.points)


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


def test_numbers_of_the_settings_sort_as_numbers(make_workdir: Maker) -> None:
    sweep = [{"network.radius": r, "algorithm.name": "dpsgd" if r == 1 else "beer"} for r in (1, 10.0, "inf")]
    radius, algorithm, *_ = page_columns(read_workdir(make_workdir(sweep, rounds=10)))
    assert [(cell.text, cell.number) for cell in radius.cells] == [("1", 1.0), ("10", 10.0), ("inf", float("inf"))]
    assert algorithm.title == "algorithm"
    assert {cell.number for cell in algorithm.cells} == {None}
