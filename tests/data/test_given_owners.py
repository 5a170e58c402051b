"""Partitions that follow something given: natural owners, a file, or the places of the clients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dealing import counts_of, deal
from small import told

from mdfl_jax import UserError
from mdfl_jax.core.numbers import Setting
from mdfl_jax.data.dataset import hold_out
from mdfl_jax.data.partition.table import TableNumbers, read_table
from mdfl_jax.data.sources import load

LABELS = np.random.default_rng(0).integers(0, 3, 40).astype(np.int32)


class TestByOwner:
    @pytest.mark.parametrize("num_clients", [1, 4, 9])
    def test_owners_stay_whole_and_are_dealt_evenly(self, num_clients):
        natural = np.random.default_rng(1).integers(0, 9, 200)
        natural[:9] = np.arange(9)  # each owner has a sample
        for seed in range(4):
            owner = np.asarray(deal("by_owner", jax.random.key(seed), natural, num_clients, owners=natural))
            of_owner = [set(owner[natural == k].tolist()) for k in range(9)]
            assert all(len(clients) == 1 for clients in of_owner)
            dealt = np.bincount([clients.pop() for clients in of_owner], minlength=num_clients)
            assert dealt.max() - dealt.min() <= 1
            assert len(dealt) == num_clients

    def test_a_data_set_without_owners_is_told(self):
        with pytest.raises(UserError, match="has no array 'client'"):
            deal("by_owner", jax.random.key(0), LABELS, 2)


@pytest.fixture
def owned(tmp_path):
    """Writes a data set with 12 training samples and an array client; returns a function that loads it."""

    def write(client, **limits):
        images = np.arange(12 * 9, dtype=np.uint8).reshape(12, 3, 3)
        labels = np.arange(12) % 3
        arrays = {"x_train": images, "y_train": labels, "x_test": images[:3], "y_test": labels[:3]}
        np.savez(tmp_path / "owned.npz", **arrays, **({} if client is None else {"client": client}))
        return load("owned", str(tmp_path), **limits)

    return write


class TestNaturalOwners:
    def test_they_are_numbered_from_zero(self, owned):
        """In the order of their values, whatever these are."""
        assert owned(np.array([70, 70, -5, 900] * 3)).client.tolist() == [1, 1, 0, 2] * 3

    def test_they_stay_with_their_samples(self, owned):
        """Also in a subset, and without the samples that are held out."""
        dataset = owned(np.arange(12), limit_train=9)
        assert dataset.client.tolist() == dataset.x_train[:, 0, 0, 0].astype(int).__floordiv__(9).tolist()
        rest = hold_out(dataset, 4)
        assert rest.client.tolist() == (rest.x_train[:, 0, 0, 0].astype(int) // 9).tolist()
        assert len(rest.client) == 5

    @pytest.mark.parametrize("client", [np.arange(11), np.arange(12.0), np.zeros((12, 1), int)])
    def test_another_array_is_told(self, owned, client):
        assert "; allowed: whole numbers [12]" in told(owned, client)


class TestByPlace:
    PLACES = np.random.default_rng(2).uniform(0, 10, (6, 2)).astype(np.float32)
    LABELS = np.repeat(np.arange(3, dtype=np.int32), [50, 30, 0])

    def counts(self, places, spread, seed=0):
        key, settings = jax.random.key(seed), {"places": jnp.asarray(places), "place_spread": spread}
        owner = np.asarray(deal("by_place", key, self.LABELS, len(places), 3, **settings))
        assert owner.min() >= 0
        return counts_of(owner, self.LABELS, len(places), 3)

    @pytest.mark.parametrize("spread", [0.05, 0.3])
    def test_shares_fall_with_the_distance_from_the_centre(self, spread):
        """Oracle: Gaussian shares around centres in the clients' rectangle, cut at rounded cumulative shares."""
        low, high = self.PLACES.min(axis=0), self.PLACES.max(axis=0)
        drawn = np.asarray(jax.random.uniform(jax.random.split(jax.random.key(0))[0], (3, 2)))
        width = spread * (high - low).max()
        found = self.counts(self.PLACES, spread)
        for label, size in enumerate([50, 30, 0]):
            centre = low + drawn[label] * (high - low)
            weight = [np.exp(-((place - centre) ** 2).sum() / (2 * width**2)) for place in self.PLACES.astype(float)]
            cuts = np.cumsum(weight) / np.sum(weight) * size
            assert (np.abs(np.cumsum(found[:, label]) - cuts) <= 0.5 + 1e-3).all()

    def test_shift_and_unit_of_length_do_not_matter(self):
        """Nor do metres or grid points: powers of two are exact."""
        np.testing.assert_array_equal(self.counts(self.PLACES, 0.2), self.counts(self.PLACES * 64, 0.2))

    def test_extremes(self):
        of_one = self.counts(self.PLACES, 1e-3)
        assert (of_one > 0).sum(axis=0).tolist() == [1, 1, 0], "a label goes to the nearest client"
        alike = self.counts(self.PLACES, 1e3)
        assert np.ptp(alike, axis=0).max() <= 1


class TestTable:
    def test_owners_are_taken_as_they_are(self):
        owner = np.random.default_rng(3).integers(-1, 4, 40)
        np.testing.assert_array_equal(
            deal("table", jax.random.key(0), LABELS, 4, table=owner.astype(np.float32)), owner
        )

    def test_counts_are_met_and_the_rest_is_nobody_s(self):
        sizes = np.bincount(LABELS, minlength=3)
        counts = np.stack([sizes // 2, sizes // 3, 0 * sizes])
        owners = [np.asarray(deal("table", jax.random.key(seed), LABELS, 3, table=counts)) for seed in (0, 1)]
        for owner in owners:
            np.testing.assert_array_equal(counts_of(owner, LABELS, 3, 3), counts)
            assert (owner == -1).sum() == 40 - counts.sum()
        assert (owners[0] != owners[1]).any(), "which samples a client gets is drawn"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("0\n1\n-1\n", [0, 1, -1]),
            ("owner\n2\n\n1\n", [2, 1]),
            ("1,0\n0,3\n", [[1, 0], [0, 3]]),
            ("zero, one\n 1, 0\n", [[1, 0]]),
        ],
    )
    def test_csv(self, tmp_path, text, expected):
        (tmp_path / "table.csv").write_text(text)
        assert read_table(str(tmp_path / "table.csv")).tolist() == expected

    def test_npz(self, tmp_path):
        for key, values in {"owner": [0, 2, -1], "counts": [[1, 2], [3, 4]]}.items():
            np.savez(tmp_path / "table.npz", **{key: np.array(values)})
            assert read_table(str(tmp_path / "table.npz")).tolist() == values

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "it holds no line of numbers"),
            ("0\n1.5\n", "line 2: '1.5' is not of whole numbers"),
            ("1.5\n1\n", "line 1: '1.5' is not of whole numbers"),
            ("1,2\n3\n", "line 2: 1 columns where line 1 has 2"),
            ("0\n-2\n", "numbers from -2 to 0"),
            ("1,-1\n", "numbers from -1 to 1"),
            ("0\n99999999999\n", "numbers from 0 to 99999999999"),
        ],
    )
    def test_a_wrong_file_is_told_in_one_line(self, tmp_path, text, says):
        (tmp_path / "table.csv").write_text(text)
        line = told(read_table, str(tmp_path / "table.csv"))
        assert says in line
        assert "data.table" in line

    def test_other_wrong_files(self, tmp_path):
        np.savez(tmp_path / "keys.npz", owners=np.arange(3))
        np.savez(tmp_path / "shape.npz", owner=np.zeros((2, 2), int))
        np.savez(tmp_path / "type.npz", owner=np.zeros(2))
        (tmp_path / "damaged.npz").write_bytes(b"PK nothing")
        expected = {
            "keys.npz": "has the keys owners",
            "shape.npz": r"owner is \[2, 2\]",
            "type.npz": "float64",
            "damaged.npz": "cannot be read",
            "missing.csv": "there is no such file",
        }
        for name, says in expected.items():
            with pytest.raises(UserError, match=says):
                read_table(str(tmp_path / name))
        with pytest.raises(UserError, match=r"data\.table is ''"):
            read_table("")

    def test_what_does_not_fit_the_study_is_told(self, tmp_path, owned):
        def numbers(text):
            (tmp_path / "table.csv").write_text(text)
            return TableNumbers(table=str(tmp_path / "table.csv"))

        dataset = owned(None)
        with pytest.raises(UserError, match=r"names the client 3; network\.num_clients is 3"):
            numbers("3\n" * 12).check(Setting(num_clients=3))
        for nobody in ("-1\n" * 12, "0,0,0\n" * 3):
            with pytest.raises(UserError, match="gives no client a sample"):
                numbers(nobody).check(Setting(num_clients=3))
        with pytest.raises(UserError, match=r"has counts of 2 clients; network\.num_clients is 3"):
            numbers("1,1,1\n1,1,1\n").check(Setting(num_clients=3))
        with pytest.raises(UserError, match="has 11 owners; owned has 12 training samples"):
            numbers("0\n" * 11).check_dataset(dataset, 3)
        with pytest.raises(UserError, match="counts of 2 labels; owned has 3 classes"):
            numbers("1,1\n1,1\n").check_dataset(dataset, 2)
        with pytest.raises(UserError, match="gives out 5 samples of label 1; owned has 4"):
            numbers("1,2,1\n1,3,1\n").check_dataset(dataset, 2)
        numbers("1,2,1\n1,2,1\n").check_dataset(dataset, 2)


def test_tables_that_numpy_has_written_are_read(tmp_path):
    """With blanks between, and whole numbers as 2.000000000000000000e+00."""
    for values in ([0, 2, -1, 1], [[3, 0], [1, 2]]):
        np.savetxt(tmp_path / "table.txt", values)
        assert read_table(str(tmp_path / "table.txt")).tolist() == values
    np.savetxt(tmp_path / "table.txt", [0.0, 1.5])
    with pytest.raises(UserError, match=r"line 2: '1\.5.*' is not of whole numbers"):
        read_table(str(tmp_path / "table.txt"))


def test_a_partition_of_pfllib_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"num_clients": 3, "Size of samples for labels in clients": [[[0, 20], [1, 5]], [], [[2, 30]]]}')
    assert read_table(str(path)).tolist() == [[20, 5, 0], [0, 0, 0], [0, 0, 30]]
    for text in ("{", '{"alpha": 1}', "[]", '{"Size of samples for labels in clients": [[1, 2]]}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"is no partition of PFLlib: it has no pairs \[label, count\]"):
            read_table(str(path))
