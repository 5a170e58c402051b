"""Tables as people and tools write them: the columns that are named, and the unit of the times."""

import pandas as pd

from mdfl_jax.traces import load


def test_columns_decide(tmp_path):
    (tmp_path / "a").write_text("0,1,2\n1,2,3\n")
    assert load(tmp_path / "a", columns="round,i,j").pair.tolist() == [[0, 1], [1, 2]]
    assert load(tmp_path / "a", columns="i,j,round").pair.tolist() == [[0, 1], [1, 2]]
    (tmp_path / "b").write_text("0,1,5,7\n1,1,6,8\n")
    assert load(tmp_path / "b", columns="start,end,i,j").ids == ("5", "6", "7", "8")
    assert load(tmp_path / "b", columns="time,id,x,y").ids == ("1",)
    (tmp_path / "c.movements").write_text("0 1 2 3 4 9 8 5 9 11 7 1\n")
    assert load(tmp_path / "c.movements").times.tolist() == [0, 3, 8, 11]
    assert load(tmp_path / "c.movements", columns="time,x,y,z").times.tolist() == [0, 4, 9]


def test_milliseconds_are_seconds_in_every_table(tmp_path):
    """The name of the column says the unit; a date has none, and the moment is the same."""
    instants = [1_700_000_000_500, 1_700_000_010_500, 1_700_000_020_500]
    table = pd.DataFrame({"time_ms": instants, "id": ["a"] * 3, "x": [0.0, 1, 2], "y": [0.0] * 3})
    table.to_csv(tmp_path / "a.csv", index=False)
    pairs = pd.DataFrame({"timestamp_ms": instants, "i": [0] * 3, "j": [1] * 3})
    pairs.to_csv(tmp_path / "contacts.csv", index=False)
    pairs.to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert load(tmp_path / "a.csv").times.tolist() == [k / 1000 for k in instants]
    for name, columns in (("contacts.csv", ""), ("bare.csv", "timestamp_ms,i,j")):
        met = load(tmp_path / name, columns=columns)
        assert met.start.tolist() == [k / 1000 for k in instants]
        assert met.step == 10
