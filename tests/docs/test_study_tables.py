"""The tables of studies, from made-up results with known differences."""

import numpy as np

from benchmarks import quoted_clocks

NOISE = np.tile((-0.5, 0.5), 10)  # exact in binary


def test_a_row_is_marked_where_it_differs_from_its_reference_of_the_same_seeds(monkeypatch):
    def row(level, noise=NOISE, seconds=300.0):
        return {"accuracy": list(level + noise), "seconds": [seconds] * 11 + [None] * 9}

    lost = row(70.0) | {"seconds": [None] * 20}
    lost["accuracy"][:2] = [None, None]
    found = {
        ("dpsgd", "drop"): (row(90.0), row(50.0)),
        ("dpsgd", "largest"): (row(90.25), row(90.0)),  # the noise is that of the reference: the difference is exact
        ("pame", "drop"): (row(89.0, 20 * NOISE), lost),
        ("local_only", "drop"): (row(80.0), row(50.0, -NOISE)),
    }
    rows = [
        {"algorithm": name, "short_contact": short, "transmission": 1, "model": model} | of
        for (name, short), both in found.items()
        for model, of in zip(("linear", "cnn"), both)
    ]
    monkeypatch.setattr(quoted_clocks, "results", lambda name: {"rows": rows})
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in quoted_clocks.radio_table()[2:]]
    assert [line[1:] for line in cells] == [
        ["90.0, 300 s", "50.0, 300 s"],
        ["90.2 +, 300 s", "90.0 +, 300 s"],
        ["89.0, 300 s", "2 of 20 diverged, later"],
        ["80.0 -, 300 s", "50.0, 300 s"],
    ]
