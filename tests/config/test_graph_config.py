"""Files of a graph: one ring in every form."""

import numpy as np

from mdfl_jax.networks.fixed import read_matrices
from tests.reference import graphs as oracle

RING = oracle.links(6, "ring")


def test_a_ring_in_every_form(tmp_path):
    text, csv, npz, npy = (tmp_path / name for name in ("g.txt", "g.csv", "g.npz", "g.npy"))
    text.write_text("# a ring\ni,j\n0,1\n1,2\n\n2,3\n3,4\n4, 5\n5,0\n")
    np.savetxt(csv, RING, delimiter=",", fmt="%d")
    np.savez(npz, a=RING.astype(np.int8))
    found = [read_matrices(path, 6) for path in (text, csv, npz)]
    for form in (RING, RING.astype(np.float32), RING[None]):
        np.save(npy, form)
        found.append(read_matrices(npy, 6))
    for read in found:
        assert read.dtype == bool
        np.testing.assert_array_equal(read, RING[None])
    one_way = np.eye(6, k=1, dtype=bool) | np.eye(6, k=-5, dtype=bool)
    np.testing.assert_array_equal(read_matrices(text, 6, directed=True), one_way[None])
    weights = np.stack([(np.eye(6) + RING / 2) / 2, np.eye(6)])
    np.save(npy, weights)
    np.testing.assert_array_equal(read_matrices(npy, 6), weights)
