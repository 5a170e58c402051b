"""The partition of a file: owners, counts, or the indices of each client."""

import json

import jax
import numpy as np
from dealing import counts_of, deal
from small import told

from mdfl_jax.contrib.partitions.table import PartitionTableNumbers, read_table
from mdfl_jax.core.numbers import Setting
from mdfl_jax.data.dataset import Dataset

LABELS = np.random.default_rng(0).integers(0, 3, 40).astype(np.int32)


def test_a_table_that_does_not_fit_is_told(tmp_path):
    labels = np.arange(12) % 3
    dataset = Dataset("owned", labels, labels, labels, labels, 3)
    for text, num_clients, says in (
        ("0\n3\n" * 6, 3, "names the client 3; network.num_clients is 3"),
        ("-1\n" * 12, 3, "gives no client a sample"),
        ("1,1,1\n1,1,1\n", 3, "has counts of 2 clients; network.num_clients is 3"),
        ("0\n" * 11, 3, "has 11 owners; owned has 12 training samples"),
        ("1,1\n1,1\n", 2, "counts of 2 labels; owned has 3 classes"),
        ("0,1,4\n3,5,2\n", 2, "has 6 owners, by its rows of indices; owned has 12 training samples"),
        ("1,2,1\n1,3,1\n", 2, "gives out 5 samples of label 1; owned has 4"),
    ):
        (tmp_path / "table.csv").write_text(text)
        numbers = PartitionTableNumbers(table=str(tmp_path / "table.csv"))

        def checked(numbers=numbers, num_clients=num_clients):
            numbers.check(Setting(num_clients=num_clients))
            numbers.check_dataset(dataset, num_clients)

        assert says in told(checked)


def test_a_table_says_owners_or_counts():
    owner = np.random.default_rng(3).integers(-1, 4, 40)
    found = deal("table", jax.random.key(0), LABELS, 4, table=owner.astype(np.float32))
    np.testing.assert_array_equal(found, owner)
    sizes = np.bincount(LABELS, minlength=3)
    counts = np.stack([sizes // 2, sizes // 3, 0 * sizes])
    owners = [np.asarray(deal("table", jax.random.key(seed), LABELS, 3, table=counts)) for seed in (0, 1)]
    for owner in owners:
        np.testing.assert_array_equal(counts_of(owner, LABELS, 3, 3), counts)
        assert (owner == -1).sum() == 40 - counts.sum()
    assert (owners[0] != owners[1]).any(), "which samples a client gets is drawn"


def test_files_of_tables(tmp_path):
    """Of CSV, NumPy and PFLlib."""
    path = tmp_path / "table.csv"
    for text, expected in [
        ("owner\n2\n\n1\n", [1, 0]),
        ("owner\n2\n-1\n0\n", [2, -1, 0]),
        ("zero, one\n 1, 0\n", [[1, 0]]),
        ("", "it holds no line of numbers"),
        ("0\n1.5\n", "line 2: '1.5' is not of whole numbers with commas or blanks between; allowed: a column of"),
        ("1,2\n3\n", "line 2: 1 columns where the first line has 2"),
        ("0\n-2\n", "numbers from -2 to 0"),
        ("0\n99999999999\n", "numbers from 0 to 99999999999"),
    ]:
        path.write_text(text)
        if isinstance(expected, str):
            assert expected in told(read_table, str(path))
        else:
            assert read_table(str(path)).tolist() == expected
    for key, values in {"owner": [0, 2, -1], "counts": [[1, 2], [3, 4]]}.items():
        np.savez(tmp_path / "table.npz", **{key: np.array(values)})
        np.savetxt(tmp_path / "table.txt", values)  # whole numbers as 2.000000000000000000e+00, with blanks between
        for name in ("table.npz", "table.txt"):
            assert read_table(str(tmp_path / name)).tolist() == values
    np.savez(tmp_path / "from_one.npz", owner=np.array([1, 2, -1, 3]))
    assert read_table(str(tmp_path / "from_one.npz"), notes := list[str]()).tolist() == [0, 1, -1, 2]
    assert notes == ["clients 1 to 3 are numbered 0 to 2"]
    np.savez(tmp_path / "keys.npz", owners=np.arange(3))
    np.savez(tmp_path / "shape.npz", owner=np.zeros((2, 2), int))
    (tmp_path / "damaged.npz").write_bytes(b"PK nothing")
    (tmp_path / "wrong.json").write_text('{"Size of samples for labels in clients": [[1, 2]]}')
    for name, says in {
        "keys.npz": "has the keys owners",
        "shape.npz": "owner is [2, 2]",
        "damaged.npz": "cannot be read",
        "missing.csv": "there is no such file",
        "wrong.json": "is no partition of PFLlib: it has no pairs [label, count]",
    }.items():
        assert says in told(read_table, str(tmp_path / name))
    path = tmp_path / "config.json"
    path.write_text('{"num_clients": 3, "Size of samples for labels in clients": [[[0, 20], [1, 5]], [], [[2, 30]]]}')
    assert read_table(str(path)).tolist() == [[20, 5, 0], [0, 0, 0], [0, 0, 30]]


def test_lists_of_indices_are_partitions(tmp_path):
    """As FedLab, FedML and NumPy save them: who holds which sample, from client 0 or from 1; the rest nobody holds."""
    held = [[5, 0], [1, 2, 7], [3]]
    owner = [0, 1, 1, 2, -1, 0, -1, 1]
    lists = ",\n".join(f"{k}: [\n{', '.join(map(str, of))}\n]" for k, of in enumerate(held))
    texts = {
        "list.json": json.dumps(held),
        "fedlab.json": json.dumps(dict(enumerate(held))),
        "from_one.json": json.dumps({k + 1: of for k, of in enumerate(held)}),
        "net_dataidx_map.txt": f"{{\n{lists}\n}}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    np.savez(tmp_path / "indices.npz", **{f"client_{k}": np.array(of) for k, of in enumerate(held)})
    for name in (*texts, "indices.npz"):
        assert read_table(str(tmp_path / name)).tolist() == owner
    found = deal("table", jax.random.key(0), LABELS, 3, table=np.array(owner))
    assert found.tolist() == owner + [-1] * (len(LABELS) - len(owner))
    said = PartitionTableNumbers(table=str(tmp_path / "from_one.json")).notes(Setting(num_clients=3))
    assert said[0].endswith("clients 1 to 3 are numbered 0 to 2")
    with_a_gap = {str(k): list(range(10 * k, 10 * k + 10)) for k in (0, 2, 10)}  # FedLab leaves out who has nothing
    (tmp_path / "gap.json").write_text(json.dumps(with_a_gap))
    np.savez(tmp_path / "gap.npz", **{f"client_{k}": np.array(of) for k, of in with_a_gap.items()})
    for name in ("gap.json", "gap.npz"):
        held = read_table(str(tmp_path / name), notes := list[str]())
        assert np.bincount(held[held >= 0]).tolist() == [10, 0, 10] + 7 * [0] + [10]
        assert not notes
    for text, owners in {"1,3\n0 2 4\n": [1, 0, 1, 0, 1], "1,2\n0,3\n": [1, 0, 0, 1]}.items():  # a row for each client
        (tmp_path / "rows.csv").write_text(text)
        assert read_table(str(tmp_path / "rows.csv")).tolist() == owners
    for text, counts in {"1,2\n3,4\n": [[1, 2], [3, 4]], "0,1\n1,0\n": [[0, 1], [1, 0]]}.items():
        (tmp_path / "counts.csv").write_text(text)
        assert read_table(str(tmp_path / "counts.csv")).tolist() == counts
    np.savez(tmp_path / "again.npz", train_0=np.array([0]), test_0=np.array([1]))
    assert "two of its lists have the number of one client" in told(read_table, str(tmp_path / "again.npz"))
    (tmp_path / "names.json").write_text(json.dumps({f"p{k}": [k] for k in (10, 2, 1)}))
    assert read_table(str(tmp_path / "names.json"), notes).tolist() == [-1, 0, 1, *[-1] * 7, 2]
    assert notes == ["clients p1, p2, p10 are numbered 0, 1, 2"]
    (tmp_path / "twice.json").write_text("[[0, 1], [1]]")
    assert "clients 0 and 1 both have the sample 1" in told(read_table, str(tmp_path / "twice.json"))
