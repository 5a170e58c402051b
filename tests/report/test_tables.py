"""The tables: numbers worked out by hand, which columns of the page say something, and by what they are sorted."""

import itertools

from mdfl_jax.report import tables
from mdfl_jax.report.tables import page_columns
from mdfl_jax.results.results import Results
from tests.report.made_report import edit, of_summary


def point(name, accuracy, overrides=(), **others):
    return {
        "id": name,
        "overrides": {"network.mobility": name, "algorithm.name": "dpsgd", **dict(overrides)},
        "final_accuracy": {"mean": accuracy[0], "std": 0.02, "ci95": accuracy[1], "per_seed": [0.5, 0.5, 0.5]},
        "worst_client_accuracy": {"mean": 0.25, "std": 0.1, "ci95": 0.0314, "per_seed": [0.2, 0.25, 0.3]},
        **others,
    }


def made():
    """A summary of two points, the first of which is the baseline."""
    moved, sent, reached = "distance_moved_per_mobile_client", "bits_sent_per_client", "rounds_to_target"
    static = {"difference_to_baseline": None, reached: None, sent: 1.6e9, moved: 0.0}
    dcm = {"difference_to_baseline": {"mean": 0.08761, "ci95": 0.005}, reached: 120, sent: 2.5e6, moved: 1234.5678}
    points = [point("static", [0.61239, 0.01], **static), point("dcm", [0.7, 0.025], **dcm)]
    return {"schema": 1, "baseline": "static", "points": points}


def test_printed_numbers_are_those_worked_out_by_hand_and_missing_ones_dashes():
    summary = made()
    header, rows, *_ = tables.sheet(of_summary(summary))
    assert header[:2] == ["mobility", "accuracy (%)"]  # the settings that do not differ have no column
    assert rows[0] == ["static", "61.24 ± 1.00", "baseline", "25.00 ± 3.14", "-", "200", "0"]
    assert rows[1] == ["dcm", "70.00 ± 2.50", "+8.76 ± 0.50", "25.00 ± 3.14", "120", "0.312", "1235"]
    lines = tables.text(of_summary(summary, {"target": 0.7})).splitlines()
    above = next(i for i, line in enumerate(lines) if set(line) == {"-"})
    assert len({len(line) for line in lines[above - 1 : above + 3]}) == 1  # headings of several lines stand on the rule
    assert "70.00 +- 2.50" in lines[above + 2]
    assert "\n".join(lines).isascii()
    bare = summary["points"][1]
    for key in ("difference_to_baseline", "worst_client_accuracy", "rounds_to_target", "bits_sent_per_client"):
        bare[key] = None
    del bare["distance_moved_per_mobile_client"]
    results = of_summary(summary)
    header, rows, *_ = tables.sheet(results)  # nobody reaches the target, nobody moves
    assert header == ["mobility", "accuracy (%)", "worst client (%)", "MB sent/client"]
    assert rows[1] == ["dcm", "70.00 ± 2.50", "-", "-"]
    assert tables.note(of_summary(summary, {"target": 0.7})).endswith(
        "target: 70 % test accuracy, which no mean reaches."
    )
    assert tables.note(of_summary(made(), {"target": 0.7})).endswith("target: 70 % test accuracy.")
    assert tables.raw_table(results)[1][1] == ["dcm", "dcm", 0.7, 0.025, *[None] * 10, 3, 0]


def test_bold_are_the_best_and_what_the_seeds_do_not_tell_from_it():
    def of(*values):
        return {"final_accuracy": {"mean": sum(values) / len(values), "per_seed": list(values)}}

    low, best, tie = of(0.40, 0.42, 0.44), of(0.60, 0.65, 0.61), of(0.59, 0.66, 0.605)
    assert tables.best_and_ties([low, best, tie], "final_accuracy") == [1, 2]
    assert tables.best_and_ties([low, best], "final_accuracy") == [1]
    assert tables.best_and_ties([low], "final_accuracy") == []
    assert tables.best_and_ties([of(0.4), of(0.6)], "final_accuracy") == []  # one seed tells nothing apart
    near = of(0.59, 0.64, 0.60)  # below the best one in each seed, but no farther than seeds are apart
    unpaired = {"paired": lambda one, other: False}
    assert tables.best_and_ties([best, near], "final_accuracy") == [0]
    assert tables.best_and_ties([best, near], "final_accuracy", **unpaired) == [0, 1]
    lost = {"final_accuracy": {"mean": None, "per_seed": [None, None, None]}}
    assert tables.best_and_ties([lost, best, low, {}], "final_accuracy") == [1]
    assert tables.best_and_ties([low, best, tie], "final_accuracy", min) == [0]
    assert tables.best_and_ties([{"rounds": 20}, {"rounds": 30}], "rounds", min) == [0]


def test_the_note_says_to_which_baseline_a_difference_goes():
    summary, gap = made(), {"mean": 0.1, "ci95": 0.01}
    assert "paired by seed, to the baseline static" in tables.note(of_summary(summary))
    summary["baseline"] = "network.radius=3"
    points = summary["points"] = [
        point(f"{rule} {radius}", [0.5, 0.1], {"network.mobility": rule, "network.radius": radius})
        | {"baseline": f"{rule} 3", "difference_to_baseline": None if radius == 3 else gap}
        for rule in ("static", "dcm")
        for radius in (3, 5)
    ]
    for one in points:
        del one["overrides"]["algorithm.name"]
    assert "to the row 'baseline' with the same mobility" in tables.note(of_summary(summary))


def edited(folder, *changes):
    """The workdir with changed entries of the points of its summary, one dict for each point."""
    return edit(folder, points=lambda points: [p | c for p, c in itertools.zip_longest(points, changes, fillvalue={})])


def test_columns_of_the_page_have_the_printed_texts_and_exact_numbers_and_say_something(make_workdir):
    folder = make_workdir(rounds=10)
    run = Results.read(folder).shown()
    found = {column.key: column for column in page_columns(run)}
    header, rows = tables.sheet(run)[:2]
    assert [cell.text for cell in found["final_accuracy"].cells] == [row[header.index("accuracy (%)")] for row in rows]
    exact = [100 * point["final_accuracy"]["mean"] for point in run.outcomes]
    assert [cell.number for cell in found["final_accuracy"].cells] == exact
    assert exact.index(max(exact)) in found["final_accuracy"].bold
    assert found["bits_sent_per_client"].cells[0].number == 200.0  # 1.6e9 bits
    named = edited(folder, *[{"id": of["id"], "baseline": "random_movement"} for of in run.outcomes])
    found = {column.key: column for column in page_columns(Results.read(named).shown())}["difference_to_baseline"]
    assert (found.header, found.cells[1]) == ("difference to random movement (points)", ("baseline", 0.0))
    nothing = {"distance_moved_per_mobile_client": 0.0, "rounds_to_target": None, "worst_client_accuracy": None}
    run = Results.read(edited(folder, *[nothing] * 4)).shown()
    keys = [column.key for column in page_columns(run)]
    assert keys == ["network.mobility", "final_accuracy", "difference_to_baseline", "bits_sent_per_client"]
    assert {"distance_moved_per_mobile_client", "rounds_to_target"} <= set(tables.raw_table(run)[0])
