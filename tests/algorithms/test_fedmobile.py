"""FedMobile against the loop of the paper, and that nothing is lost or delivered twice, over random schedules."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import fedmobile as oracle

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.message_bits import total_bits, words
from mdfl_jax.core.types import Links

N, SLOTS = 6, 40
RELAYING = ("fedmobile", "fedmobile_u", "fedmobile_d", "fedmobile_local")
VARIANTS = (*RELAYING, "async_fl", "virtual_upload", "virtual_download", "virtual_download_once")
NEVER = 2**30
TARGETS = np.random.default_rng(7).normal(size=(N, 7))
CURVES = np.random.default_rng(8).uniform(0.2, 1.5, size=(N, 7))


def random_schedule(rng, longest=9, rate=0.7, slots=SLOTS, one_never=False):
    """Random meetings and pairs: [T, N] at_server, last, next, partner."""
    meets = np.zeros((slots, N), bool)
    for i in range(N):
        t = rng.integers(0, longest)
        while t < slots:
            meets[t, i] = True
            t += rng.integers(1, longest + 1)
    if one_never:
        meets[:, 0] = False
    last, following = np.full((slots, N), -1), np.full((slots, N), NEVER)
    for i in range(N):
        met = np.flatnonzero(meets[:, i])
        for t in range(slots):
            last[t, i] = max([m for m in met if m <= t], default=-1)
            following[t, i] = min([m for m in met if m > t], default=NEVER)
    partner = np.tile(np.arange(N), (slots, 1))
    for t in range(slots):
        order = rng.permutation(N)
        for a, b in zip(order[::2], order[1::2]):
            if rng.random() < rate:
                partner[t, a], partner[t, b] = b, a
    return meets, last.astype(np.int32), following.astype(np.int32), partner.astype(np.int32)


def random_graphs(rng, slots=SLOTS):
    """[T, N, N] symmetric adjacency: a client can talk to several."""
    upper = np.triu(rng.random((slots, N, N)) < 0.35, 1)
    return upper | np.swapaxes(upper, 1, 2)


def flat(tree):
    """Rows [M, 7] of a stacked tree."""
    return np.concatenate([np.asarray(leaf).reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)], axis=1)


def quadratic(params, key):
    """Gradient c_i (x - b_i) of a quadratic a client."""
    rows = jnp.concatenate([leaf.reshape(N, -1) for leaf in jax.tree.leaves(params)], axis=1)
    g = jnp.asarray(CURVES, rows.dtype) * (rows - jnp.asarray(TARGETS, rows.dtype))
    return jnp.sum(g**2, axis=1), {"a": g[:, :3], "b": g[:, 3:].reshape(N, 2, 2)}


def numbers(k=1, window=(1, 6, 1, 6), lr=0.1, **others):
    """Of all variants; each takes those that it has (`as_array`)."""
    low, high, d_low, d_high = window
    return SimpleNamespace(
        lr=lr, upload_from=low, upload_until=high, download_from=d_low, download_until=d_high, max_upload=k,
        max_download=k, download_after=2 * k, **others,
    )  # fmt: skip


DECAY = 0.9


def as_array(name, hparams, compressor=""):
    return resolved(name, compressor, vars(hparams)).traced()


_programs = {}


def run(name, hparams, schedule, graphs=None, compressor="", seed=0, gradient=None):
    """The algorithm alone over a schedule, one scan; the states after each slot and the statistics."""

    def whole(hparams, slots, key):
        algorithm = ALGORITHMS[name](
            Settings(sgd(optax.exponential_decay(1.0, 1, DECAY, end_value=0.3), momentum=False), compressor=compressor)
        )
        start = jax.tree.map(lambda s: jnp.broadcast_to(s, (N, *s.shape)), start_model())

        def step(state, slot):
            t, meets, last, following, partner, adjacency = slot
            mix = jnp.eye(N)
            if graphs is None:
                links = Links(partner[:, None] == jnp.arange(N), mix, meets, last, following, partner)
            else:
                links = Links(adjacency, mix, meets, last, following)
            state, stats = algorithm.round(hparams, jax.random.fold_in(key, t), state, links, gradient or quadratic)
            return state, (state, stats)

        return jax.lax.scan(step, algorithm.init(hparams, start), slots)[1]

    kind = (name, graphs is None, compressor, gradient)
    program = _programs.setdefault(kind, jax.jit(whole))
    adjacency = np.zeros((len(schedule[0]), N, N), bool) if graphs is None else graphs
    slots = (np.arange(len(schedule[0]), dtype=np.int32), *schedule, adjacency)
    return program(as_array(name, hparams, compressor), slots, jax.random.key(seed))


def start_model():
    return {"a": jnp.linspace(-1, 1, 3), "b": jnp.linspace(0, 1, 4).reshape(2, 2)}


def oracle_schedule(schedule, graphs=None):
    meets, last, following, partner = schedule
    rows = []
    for t in range(len(meets)):
        if graphs is None:
            talks = [[int(partner[t, i])] if partner[t, i] != i else [] for i in range(N)]
        else:
            talks = [np.flatnonzero(graphs[t, i]).tolist() for i in range(N)]
        rows.append((meets[t].tolist(), last[t].tolist(), following[t].tolist(), talks))
    return rows


def expected(name, hparams, schedule, graphs=None, noise=None):
    start = flat(jax.tree.map(lambda s: s[None], start_model()))[0]
    return oracle.fedmobile(
        start,
        oracle_schedule(schedule, graphs),
        lambda i, x, t: CURVES[i] * (x - TARGETS[i]),
        lambda t: hparams.lr * max(DECAY**t, 0.3),
        name,
        hparams.upload_from,
        hparams.upload_until,
        hparams.download_from,
        hparams.download_until,
        hparams.max_upload,
        hparams.max_download,
        download_after=hparams.download_after,
        **({"noise": noise} if noise else {}),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_equals_the_paper_read_slot_by_slot(name, several):
    """K = 1 and more, pairs and several partners in a slot, a client that never meets the server."""
    relayed = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        schedule = random_schedule(rng, longest=(9, 15)[seed % 2], one_never=seed == 4)
        graphs = random_graphs(rng) if several else None
        hparams = numbers(k=(1, 1, 2, 3, 1, 2)[seed], window=((1, 6, 1, 6), (3, 11, 2, 9), (0, 9, 0, 9))[seed % 3])
        states, _ = run(name, hparams, schedule, graphs)
        theirs = expected(name, hparams, schedule, graphs)
        for t in range(SLOTS):
            at = jax.tree.map(lambda leaf, t=t: leaf[t], states)
            np.testing.assert_allclose(flat(at.server)[0], theirs[t]["server"], atol=1e-5)
            np.testing.assert_allclose(flat(at.params), theirs[t]["models"], atol=1e-5)
            np.testing.assert_allclose(flat(at.held), theirs[t]["held"], atol=1e-5)
            assert at.version.tolist() == theirs[t]["versions"]
            if at.copies is not None:
                np.testing.assert_allclose(flat(at.copies), theirs[t]["copies"], atol=1e-5)
        ours = states.traffic.relayed_updates[-1].sum() + states.traffic.relayed_models[-1].sum()
        assert int(ours) == theirs[-1]["relayed"]
        relayed += theirs[-1]["relayed"]
    assert (relayed > 20) == (name in RELAYING)


NOISES = [("qsgd", {"levels": 2}), ("gaussian_noise", {"noise": 0.3})]
MANIPULATED = ("fedmobile", "fedmobile_u", "fedmobile_local", "fedmobile_auto")


def steps_of(hparams, seed):
    """[T, N, 7] the steps of `noisy`, made from the keys alone."""
    key = jax.random.key(seed)
    keys = jax.vmap(lambda t: jax.random.fold_in(jax.random.fold_in(key, t), 0))(jnp.arange(SLOTS))
    rate = hparams.lr * np.maximum(DECAY ** np.arange(SLOTS), 0.3)
    return rate[:, None, None] * np.asarray(jax.vmap(lambda k: jax.random.normal(k, (N, 7)))(keys), np.float64)


def noisy(params, key):
    """A gradient that has nothing to do with the model, so that the sum of all steps is known beforehand."""
    g = jax.random.normal(key, (N, 7))
    return jnp.zeros(N), {"a": g[:, :3], "b": g[:, 3:].reshape(N, 2, 2)}


@pytest.mark.long
@pytest.mark.parametrize(("compressor", "extra"), NOISES)
@pytest.mark.parametrize("name", MANIPULATED)
def test_nothing_is_lost(name, compressor, extra):
    """N (x^0 - x^t) + sum of m_i is the sum of all steps, in every slot (FedMobile 4.1)."""
    start = flat(jax.tree.map(lambda s: s[None], start_model()))[0]

    @settings(max_examples=8, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
    def holds(seed, k, several):
        rng = np.random.default_rng(seed)
        schedule, hparams = random_schedule(rng), numbers(k, window=(0, 9, 0, 9), lr=0.5, **extra)
        graphs = random_graphs(rng) if several else None
        states, _ = run(name, hparams, schedule, graphs, compressor, seed, gradient=noisy)
        server = np.concatenate([np.asarray(states.server[k]).reshape(SLOTS, -1) for k in ("a", "b")], axis=1)
        held = np.concatenate([np.asarray(states.held[k]).reshape(SLOTS, N, -1) for k in ("a", "b")], axis=2)
        total = N * (start - server.astype(np.float64)) + held.sum(axis=1)
        np.testing.assert_allclose(total, steps_of(hparams, seed).sum(axis=1).cumsum(axis=0), atol=2e-4)

    holds()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["fedmobile_auto", *VARIANTS])
def test_no_step_is_delivered_twice(name):
    """Every step has a coordinate of its own: what the server has of it is 0 or 1, and what is missing is held once."""
    slots, size = 24, 24 * N

    @jax.jit
    def whole(hparams, slots):
        algorithm = ALGORITHMS[name](Settings(sgd(momentum=False)))

        def step(state, slot):
            t, meets, last, following, partner = slot
            links = Links(partner[:, None] == jnp.arange(N), jnp.eye(N), meets, last, following, partner)
            mark = jax.nn.one_hot(t * N + jnp.arange(N), size)
            state, _ = algorithm.round(hparams, jax.random.key(0), state, links, lambda p, k: (jnp.zeros(N), mark))
            return state, (state.server, state.held)

        return jax.lax.scan(step, algorithm.init(hparams, jnp.zeros((N, size))), slots)[1]

    delivered_late = 0
    for seed in range(10):
        schedule = random_schedule(np.random.default_rng(seed), slots=slots)
        hparams = as_array(name, numbers(k=1 + seed % 3, window=(0, 9, 0, 9), lr=1.0))
        server, held = whole(hparams, (np.arange(slots, dtype=np.int32), *schedule))
        delivered, kept = -N * np.asarray(server[:, 0]), np.asarray(held)
        assert np.allclose(np.minimum(abs(delivered), abs(delivered - 1)), 0, atol=1e-5)
        assert np.isin(kept, (0, 1)).all()
        made = np.repeat(np.arange(slots), N)[None] <= np.arange(slots)[:, None]
        np.testing.assert_allclose(delivered + kept.sum(axis=1), made, atol=1e-5)
        assert (np.diff(np.round(delivered), axis=0) >= 0).all()  # the server never gives back
        delivered_late += (kept.sum(axis=2) > 9).sum()
    if name == "fedmobile_u":
        assert delivered_late > 0  # some hold more than they can have made: they carry for others


def signs_error(client, private):
    """The error of the compressor sign: a zero counts as positive."""
    return np.where(private < 0, -1, 1) * abs(private).mean() - private


@pytest.mark.few(1)
@pytest.mark.parametrize("several", [False, True])
def test_manipulated_updates_equal_the_paper(several):
    """Appendix E with a compressor that draws nothing: private updates, errors kept, and what they do to the server."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        schedule, hparams = random_schedule(rng), numbers(k=1 + seed, window=(1, 9, 0, 9))
        graphs = random_graphs(rng) if several else None
        states, _ = run("fedmobile", hparams, schedule, graphs, compressor="sign")
        theirs = expected("fedmobile", hparams, schedule, graphs, signs_error)
        for t in range(SLOTS):
            at = jax.tree.map(lambda leaf, t=t: leaf[t], states)
            np.testing.assert_allclose(flat(at.server)[0], theirs[t]["server"], atol=1e-4)
            np.testing.assert_allclose(flat(at.held), theirs[t]["held"], atol=1e-4)


def test_bits_of_manipulated_updates():
    """A client's own update takes the compressor's bits; one with others' or an error in it, a whole model's."""
    slots = 6
    meets, last = np.zeros((slots, N), bool), np.full((slots, N), -1, np.int32)
    following = np.tile(np.array([NEVER, 40, 20, 10, 9, 8], np.int32), (slots, 1))
    partner = np.tile(np.arange(N, dtype=np.int32), (slots, 1))
    for t, (a, b) in {1: (0, 1), 2: (1, 2), 3: (0, 3), 4: (5, 4)}.items():  # 0 to 1; 1, mixed, to 2; 0 again; 4 to 5
        partner[t, a], partner[t, b] = b, a
    hparams = numbers(k=5, window=(0, 50, 0, 0), lr=0.1, levels=3)
    states, _ = run("fedmobile_u", hparams, (meets, last, following, partner), compressor="qsgd", gradient=quadratic)
    short, whole = 32 + 7 * (1 + 2), 7 * 32
    sent = total_bits(words(jax.tree.map(lambda leaf: leaf[-1], states.traffic.relayed_bits)))
    assert sent.tolist() == [short + whole, whole, 0, 0, short, 0]


def test_messages_and_bits_by_kind():
    """Counts against those of the schedule: uploads and downloads at meetings, relays one message each."""
    schedule = random_schedule(np.random.default_rng(3))
    states, stats = run("fedmobile", numbers(k=2), schedule)
    met, traffic = schedule[0].sum(axis=0), jax.tree.map(lambda leaf: leaf[-1], states.traffic)
    assert traffic.uploads.tolist() == traffic.downloads.tolist() == met.tolist()
    relayed = np.asarray(traffic.relayed_updates + traffic.relayed_models)
    assert traffic.relayed_updates.sum() > 0
    assert traffic.relayed_models.sum() > 0
    assert total_bits(words(traffic.relayed_bits)).tolist() == (32 * 7 * relayed).tolist()
    assert stats.messages.sum(axis=0).tolist() == (2 * met + relayed).tolist()
    assert total_bits(words(stats.bits)).sum(axis=0).tolist() == (32 * 7 * (2 * met + relayed)).tolist()
    _, silent = run("async_fl", numbers(), schedule)
    assert silent.messages.sum(axis=0).tolist() == (2 * met).tolist()


def test_fedavg_with_a_server_has_combined_once_in_every_round():
    """The loop of McMahan's algorithm 1: after round R the server has the mean of the models of R rounds of steps."""
    schedule = random_schedule(np.random.default_rng(0))
    states, stats = run("server_fedavg", numbers(), schedule)
    rows = lambda tree, *shape: np.concatenate([leaf.reshape(*shape, -1) for leaf in jax.tree.leaves(tree)], axis=-1)  # noqa: E731
    servers, models = rows(states.server, SLOTS), rows(states.params, SLOTS, N)
    server = flat(jax.tree.map(lambda s: s[None], start_model()))[0].astype(np.float64)
    for t in range(SLOTS):
        clients = [server - 0.1 * max(DECAY**t, 0.3) * c * (server - b) for c, b in zip(CURVES, TARGETS)]
        server = np.mean(clients, axis=0)
        np.testing.assert_allclose(servers[t], server, atol=1e-5)
        np.testing.assert_allclose(models[t], clients, atol=1e-5)
    assert stats.messages.tolist() == [[2] * N] * SLOTS
    assert stats.heard.at_server.all()
    assert not stats.heard.adjacency.any()


def test_who_hears_whom_is_who_relays():
    """Between clients goes only what is relayed, over pairs and over graphs, counted one by one."""
    rng = np.random.default_rng(4)
    for graphs in (None, random_graphs(rng)):
        schedule = random_schedule(rng)
        _, stats = run("fedmobile", numbers(k=2), schedule, graphs)
        heard = np.zeros((SLOTS, N, N), bool)
        for t, (gives, to, takes, source) in enumerate(zip(*map(np.asarray, stats.details))):
            for i in range(N):
                if gives[i]:
                    heard[t, to[i], i] = True
                if takes[i]:
                    heard[t, i, source[i]] = True
        assert heard.any()
        np.testing.assert_array_equal(stats.heard.adjacency, heard)
