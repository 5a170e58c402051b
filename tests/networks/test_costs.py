"""Sums of many rounds, what is judged in single precision, and the load of a link."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import holding

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.pame import PaMENumbers
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.links import ALL_PAIRS
from mdfl_jax.core.message_bits import sparse_bits, total_bits, words
from mdfl_jax.networks.contact import Met
from mdfl_jax.networks.costs import (
    SHORT_CONTACTS,
    CostParams,
    LinkLoad,
    Work,
    add,
    in_time,
    link_filter,
    no_total,
    probe,
)


def test_a_million_short_rounds_are_added_without_drift():
    """A plain sum in single precision of 0.1 is wrong by 1 % after a million additions."""
    short = jnp.float32(0.1)
    total = jax.jit(lambda: jax.lax.fori_loop(0, 10**6, lambda _, total: add(total, short), no_total()))()
    np.testing.assert_allclose(total.value, 10**6 * float(short), rtol=1e-6)


def test_a_message_as_long_as_the_contact_is_carried():
    """Ten rounds of 0.1 s are one second, also in single precision."""
    rule = SHORT_CONTACTS["resume"]
    state, one = rule.init(2, 0), np.full((2, 2), 0.1, np.float32)
    found = []
    for _ in range(20):
        carries, state = rule.step(jnp.float32(1.0), state, jnp.ones((2, 2), bool), one, ALL_PAIRS)
        found.append(bool(carries[0, 1]))
    assert np.flatnonzero(found).tolist() == [9, 19]
    assert SHORT_CONTACTS["drop"].step(jnp.float32(0.1), None, jnp.ones((2, 2), bool), one, ALL_PAIRS)[0].all()


def test_the_slower_direction_of_a_link_decides():
    """100 bits in a contact of one second."""
    rule, cost = link_filter(Work(), "drop"), CostParams(link_bits=np.float32(100))
    state, contact = rule.init(cost, jax.random.key(0), holding([1, 1]), 0), ~jnp.eye(2, dtype=bool)
    for slower, carries in ((50.0, False), (150.0, True)):
        rate = jnp.array([[0.0, 200.0], [slower, 0.0]])
        found, _ = rule.step(cost, state, None, Met(ALL_PAIRS, contact, lasted=jnp.ones((2, 2)), rate=rate))
        assert found.heard[contact].tolist() == [carries] * 2


@pytest.mark.parametrize(("each", "count"), [(0.6, 7), (0.1, 3), (0.01, 20)])
def test_who_ends_at_the_deadline_is_in_time(each, count):
    """0.6 s times 7 is more than 4.2 s in single precision."""
    cost, held = CostParams(np.float32(each), deadline=np.float32(each * count)), jnp.array([count, count + 1])
    assert in_time(cost, Work(), jax.random.key(0), held).tolist() == [True, False]


MODEL = {"w": jax.ShapeDtypeStruct((5, 4), jnp.float32), "b": jax.ShapeDtypeStruct((4,), jnp.float32)}
DENSE = 24 * 32
LOADS = {
    "dpsgd": LinkLoad(1, DENSE, 32 + 5),  # the least is one of 24 coordinates, and which
    "sgp": LinkLoad(1, DENSE + 32),  # the model and its weight
    "gradient_tracking": LinkLoad(2, 2 * DENSE),  # two messages from the second round on
    "kgt": LinkLoad(2, 2 * DENSE),
    "dmgt_svrg": LinkLoad(4, 4 * DENSE),  # each of two steps of gossip
    "local_only": LinkLoad(1, DENSE),  # nothing is sent: a whole model is assumed
}


def test_load_of_a_link():
    for name, expected in LOADS.items():
        load = probe(ALGORITHMS[name](Settings()), MODEL)(resolved(name, "", {}).traced())
        assert load[:2] == expected[:2], name
    assert probe(ALGORITHMS["dpsgd"](Settings()), MODEL)(LocalNumbers().traced()) == LOADS["dpsgd"]


def test_load_follows_the_numbers_of_a_point():
    """PaME sends a share of the coordinates and their indices; one program serves all shares."""
    load = probe(ALGORITHMS["pame"](Settings()), MODEL)
    for share, count in ((0.25, 6), (0.5, 12), (1.0, 24)):
        numbers = PaMENumbers(transmission=share).traced()
        assert load(numbers)[:2] == (1, total_bits(words(sparse_bits(24, count, 32))))
