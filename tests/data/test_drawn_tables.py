"""Tables that are drawn, mutated and written by pandas: each is read right or refused in one line, nothing else.

What is right is known from the drawn columns themselves: this file reads nothing.
"""

import csv

import numpy as np
import pandas as pd

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.sources import load

ROWS = 40
WORDS = ["red", "green", "blue", "dark grey"]
NAMES = ["size", "weight", "x", "alcohol (%)", "n_1", "Höhe", "when", "price, net", "a;b", "0"]


def feature(drawn, kind):
    """A column as it is written, and the features [ROWS, F] that it must become."""
    if kind == "text":
        cells = drawn.choice(WORDS, ROWS)
        return cells, (cells[:, None] == np.unique(cells)).astype(float)
    values = {
        "float": lambda: drawn.normal(size=ROWS) * 10.0 ** drawn.integers(-12, 12),
        "thousandths": lambda: np.round(drawn.normal(size=ROWS) * 10, 3),
        "whole": lambda: drawn.integers(-9, 1000, ROWS),
        "flag": lambda: drawn.random(ROWS) < 0.5,
        "constant": lambda: np.full(ROWS, drawn.choice([0, 1, 2.5])),
        "time": lambda: 1_700_000_000 + drawn.permutation(10 * ROWS)[:ROWS],
        "huge": lambda: np.array([2**64 + 2**50 * int(k) for k in drawn.integers(0, 1000, ROWS)], object),
    }[kind]()
    return values, values.astype(float)[:, None]


KINDS = ["float", "thousandths", "whole", "flag", "text", "constant", "time", "huge"]


def target(drawn):
    """The cells of a target, and the labels or the numbers that they are."""
    kind = drawn.choice(["texts", "numbers", "flags", "regression"])
    if kind == "regression":
        values = drawn.normal(size=ROWS)
        return values, values
    classes = np.concatenate([np.arange(3), drawn.integers(0, 3, ROWS - 3)])
    cells = np.array({"texts": WORDS[:3], "numbers": [1, 5, 30], "flags": [False, True, True]}[kind])[classes]
    return cells, np.unique(cells, return_inverse=True)[1]


# Mutations of the header, of cells and of the form: (drawn, frame, form, features).


def renamed(drawn, frame, form, features):
    known = [name for name in frame if name in ("label", "target", "client")]
    if known:
        name = drawn.choice(known)
        changes = [str.upper, str.title, lambda n: f" {n}", lambda n: f"{n}s", lambda n: f"# {n}", lambda n: "class"]
        new = changes[drawn.integers(len(changes))](name)
        frame.columns = [new if of == name else of for of in frame]


def holed(drawn, frame, form, features):
    """A cell has no value, or in a column of numbers a word."""
    column = drawn.choice(list(frame))
    cells = frame[column].astype(object)
    words = ["inf", "many"] if column in features and frame[column].dtype.kind in "if" else []
    cells.iloc[drawn.integers(ROWS)] = drawn.choice(np.array([None, "", "NA", "?", "n/a", " ", *words], object))
    frame[column] = cells


def padded(drawn, frame, form, features):
    for name in [name for name in dict.fromkeys(frame) if isinstance(frame[name].iloc[0], str)]:
        frame[name] = [cell + " " * int(drawn.integers(3)) for cell in frame[name]]


def other(drawn, frame, form, features):
    """The index of pandas, a column without a name or with another's, no header, or cells that may be something."""
    cells = drawn.choice(
        drawn.choice(["<5 >=10", "1/2 3/4", "0x1f 0x2f", "18-24 25-34", "2020-01-28 2021-02-03"]).split(), ROWS
    )
    kind, place = drawn.integers(5), int(drawn.integers(len(frame.columns) + 1))
    if kind < 2:
        form |= {"index": True} if kind else {"header": False}
    else:
        name = ["", frame.columns[drawn.integers(len(frame.columns))], "odd"][kind - 2]
        frame.insert(place if kind == 2 else 0, name, cells if kind == 4 else 1.5, allow_duplicates=True)


WRONG = [holed, renamed, other]
"""After these a table may be refused; after the others it must be read."""


def case(drawn):
    """A table as it is written, what it is, and whether it may be refused."""
    names = list(drawn.permutation(NAMES)[: drawn.integers(1, 6)])
    columns = {name: feature(drawn, drawn.choice(KINDS)) for name in names}
    cells, y = target(drawn)
    is_regression = y.dtype.kind == "f"
    own = drawn.choice(["target" if is_regression else "label", "last"])
    owner = drawn.integers(0, 3, ROWS) if drawn.random() < 0.3 else None
    frame = pd.DataFrame({name: of for name, (of, _) in columns.items()})
    features = {name: x for name, (_, x) in columns.items()}
    if owner is not None:
        frame.insert(int(drawn.integers(len(frame.columns) + 1)), "client", owner)
    frame.insert(len(frame.columns) if own == "last" else int(drawn.integers(len(frame.columns) + 1)), own, cells)
    form = {"index": False, "sep": drawn.choice([",", ",", ";", "\t"]), "quoting": int(drawn.choice([0, 0, 1, 2]))}
    form |= {"lineterminator": drawn.choice(["\n", "\r\n"]), "encoding": drawn.choice(["utf-8", "utf-8-sig"])}
    if form["sep"] == ";" and drawn.random() < 0.5:
        form["decimal"] = ","
    changes = [change for change in (padded, *WRONG) if drawn.random() < 0.2]
    for change in changes:
        change(drawn, frame, form, features)
    may_be_refused = bool(set(changes) & set(WRONG)) or "a;b" in names or "price, net" in names
    # Numbers of three decimals, or none, do not say whether a comma is that of decimals.
    may_be_refused |= "decimal" in form
    return frame, form, (np.concatenate(list(features.values()), axis=1), y, owner), may_be_refused


def agrees(data, x, y, owner):
    """Whether a data set is what has been drawn."""
    group = owner if owner is not None else y if y.dtype.kind != "f" else np.zeros(ROWS, int)
    rank = np.array([(group[:k] == group[k]).sum() for k in range(ROWS)])
    test = rank % 5 == 4
    if (data.targets is Targets.NUMBERS) != (y.dtype.kind == "f") or (data.client is None) != (owner is None):
        return False
    if owner is not None and not np.array_equal(data.client, np.unique(owner[~test], return_inverse=True)[1]):
        return False
    away = x[~test][0] - data.x_train[0] if data.x_train.shape[1:] == x.shape[1:] else 0  # the mean, or the middle
    for found, found_y, rows in ((data.x_train, data.y_train, ~test), (data.x_test, data.y_test, test)):
        if found.shape != x[rows].shape or not np.array_equal(found_y.ravel(), y[rows].astype(found_y.dtype)):
            return False
        as_given = (found == x[rows].astype(np.float32)).all(axis=0)
        centred = (abs(found - (x[rows] - away)) <= 1e-6 * np.ptp(x, axis=0)).all(axis=0)
        centred &= (x.min(axis=0) <= away) & (away <= x.max(axis=0))
        if not (as_given | centred).all():
            return False
    distinct = [len(np.unique(of)) for of in np.concatenate([data.x_train, data.x_test]).T]
    return distinct == [len(np.unique(of)) for of in x.T]  # no two numbers have become one


def test_a_drawn_table_is_read_right_or_refused(tmp_path):
    wrong, refused, right, cases = [], 0, 0, 60
    for seed in range(cases):
        frame, form, truth, may_be_refused = case(np.random.default_rng(seed))
        try:
            frame.to_csv(tmp_path / "mine.csv", **form)
        except csv.Error:
            continue  # what cannot be written
        try:
            right += (is_right := agrees(load("mine", str(tmp_path)), *truth))
            said = "" if is_right else "read as something else"
        except UserError as error:
            said = "" if may_be_refused and "\n" not in str(error) else str(error)
            refused += not said
        if said:
            wrong.append((seed, said, form))
    assert not wrong, f"{len(wrong)} of {cases}: {wrong[:3]}"
    assert right > cases / 4
    assert refused > cases / 4
