"""Data that come on the way: what clients hold against lists in Python, and what is there now against turned images."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal, toy_dataset

from mdfl_jax.core.rng import stream, stream_at
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.collecting import DRIFTS, OWN, CollectingNumbers, collecting

N, SIDE, RATE, WINDOW, CLASSES, EVERY = 5, 2, 3, 4, 3, 3
KEY = jax.random.key(4)
AREA = np.zeros(2, np.float32), np.full(2, 10, np.float32)
NUMBERS = CollectingNumbers(DirichletNumbers(np.float32(0.3)), *AREA, np.int32(EVERY))


def made(drift="", batch_size=0, num_relays=0, mesh=None, **asked):
    dataset = toy_dataset()
    asked = {"partition": "dirichlet", "batch_size": batch_size} | asked
    inner = classification(dataset, make_model("linear", CLASSES), SIDE**2, mesh=mesh, **asked)
    return inner, collecting(inner, N, RATE, WINDOW, SIDE, CLASSES, drift, num_relays)


def region(place):
    """The region of a place, by hand: column times the side, and row."""
    column, row = (min(max(int(x // (10 / SIDE)), 0), SIDE - 1) for x in place)
    return column * SIDE + row


def loop(inner, drift, places, there):
    """What each client holds after each round, as lists of (sample, quarter turns), and the region it then reads."""
    index = inner.partition(inner.data, NUMBERS.inner, stream(KEY, "partition")).held
    own = [np.asarray(index.sample)[f : f + k] for f, k in zip(index.first, index.num_samples)]
    kept, after, read = [deque(maxlen=WINDOW) for _ in range(N)], [], []
    for t in range(len(places)):
        steps = t // EVERY
        draws = [region(places[t, i]) for i in range(N)]
        draws = [(r - steps) % SIDE**2 if drift == "places" else r for r in draws]
        sizes = np.array([[max(len(own[r]), 1)] for r in draws])
        key = jax.random.fold_in(stream_at(KEY, "partition", t), OWN)  # no key that the partition splits
        drawn = np.asarray(jax.random.randint(key, (N, RATE), 0, sizes))
        for i, r in enumerate(draws):
            found = [(int(own[r][k]), steps % 4 if drift == "rotation" else 0) for k in drawn[i] if len(own[r])]
            kept[i].append(found if there[t, i] else [])
        after.append([[pair for found in each for pair in found] for each in kept])
        read.append(draws)
    return after, read, own


@pytest.mark.parametrize("drift", DRIFTS)
def test_clients_hold_what_they_collected_in_their_last_rounds_where_they_were(drift):
    rng = np.random.default_rng(1)
    places, there = rng.uniform(-1, 11, (11, N, 2)).astype(np.float32), rng.random((11, N)) < 0.7
    inner, task = made(drift)
    labels, n = np.asarray(inner.data.y_train), len(inner.data.y_train)

    def play(data):
        clients = task.partition(data, NUMBERS, stream(KEY, "partition"), places[0])

        def body(state, given):
            t, position, present = given
            state = task.collecting.step(data, NUMBERS, KEY, t, clients, position, present, state)
            return state, task.collecting.held(data, clients, state)

        rounds = jnp.arange(len(places)), jnp.asarray(places), jnp.asarray(there)
        return clients, jax.lax.scan(body, task.collecting.start, rounds)[1]

    clients, held = jax.device_get(jax.jit(play)(task.data))
    after, read, own = loop(inner, drift, places, there)
    counts = np.array([np.bincount(labels[each], minlength=CLASSES) for each in own])
    for i in range(N):  # before the first round clients are known by the data where they begin
        np.testing.assert_array_equal(clients.label_counts[i], counts[region(places[0, i])])
    for t in range(len(places)):
        index = held.inner.held
        for i in range(N):
            first, size = index.first[t, i], index.num_samples[t, i]
            found = sorted((int(s) % n, int(s) // n) for s in index.sample[t, first : first + size])
            assert found == sorted(after[t][i]), (t, i)
            counted = np.bincount(labels[[s for s, _ in after[t][i]]].astype(int), minlength=CLASSES)
            np.testing.assert_array_equal(held.label_counts[t, i], counted)
            np.testing.assert_array_equal(held.here[t, i], counts[read[t][i]])
    assert {len(each) for of in after for each in of} > {0, WINDOW * RATE}


def test_what_is_found_and_what_is_tested_is_turned():
    inner, task = made("rotation", batch_size=8)
    n, images = len(inner.data.y_train), np.asarray(inner.data.x_train)
    params = jax.tree.map(lambda p: jnp.stack([p] * N), inner.init(inner.data, KEY))
    for q in range(4):
        sample = np.arange(n) + q * n
        np.testing.assert_array_equal(np.asarray(task.data.x_train)[sample], [np.rot90(x, q) for x in images])
        np.testing.assert_array_equal(np.asarray(task.data.y_train)[sample], inner.data.y_train)
    clients = jax.jit(task.partition)(task.data, NUMBERS, KEY, np.ones((N, 2), np.float32))
    state = jax.jit(task.collecting.step)(
        task.data, NUMBERS, KEY, jnp.int32(2 * EVERY), clients, np.ones((N, 2)), np.ones(N, bool), task.collecting.start
    )
    holding = task.collecting.held(task.data, clients, state)
    score = jax.jit(task.evaluate)(task.data, holding, params)
    turned = inner.data._replace(x_test=jnp.asarray([np.rot90(x, 2) for x in np.asarray(inner.data.x_test)]))
    assert_trees_equal(score, inner.evaluate(turned, holding.inner, params), 1e-6)
    loss, found = jax.jit(task.gradient)(task.data, holding, params, KEY)
    half = inner.data._replace(x_train=jnp.asarray([np.rot90(x, 2) for x in images]))
    back = holding.inner._replace(held=holding.inner.held._replace(sample=holding.inner.held.sample % n))
    assert_trees_equal((loss, found), inner.gradient(half, back, params, KEY), 1e-6)
