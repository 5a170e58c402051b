"""The rivals with compressed innovations: against loops, by their counts, in rounds without links, where they end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import NO_LINKS, Problem, graph, run, run_long
from oracles import innovations as oracle

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of, resolved
from mdfl_jax.core.types import FIXED, SYMMETRIC, Links

RIVALS = ("anq_nids", "beer", "choco", "dcd_psgd", "squarm_sgd")
EVERY_OTHER = [graph() if t % 2 else NO_LINKS for t in range(8)]
ALWAYS = [graph()] * 6
DEGREE = graph()[0].sum(axis=1)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def mixes_of(links):
    return [mix for _, mix in links]


def check_counts(messages, bits, links, each, start=0, factor=1):
    """Every client speaks in rounds with links from ``start`` on, ``factor`` messages of ``each`` bits a link."""
    for t, (adjacency, _) in enumerate(links):
        expected = adjacency.sum(axis=0) * (factor if t >= start else 0)
        assert messages[t].tolist() == expected.tolist(), t
        if each is not None:
            assert bits[t].tolist() == (expected * each).tolist(), t


@pytest.mark.parametrize("links", [ALWAYS, EVERY_OTHER], ids=["always", "every other round"])
def test_beer_equals_the_loop(links):
    problem, hparams = Problem(), numbers_of("beer", lr=0.0625, consensus_lr=0.375, transmission=0.4)
    models, messages, bits, _ = run(ALGORITHMS["beer"](Settings()), hparams, problem, links)
    expected = oracle.beer(problem.start, problem.gradient_of, mixes_of(links), 0.0625, 0.375, oracle.top_k(0.4))
    np.testing.assert_allclose(models, expected, rtol=1e-10, atol=1e-10)
    for t, (adjacency, _) in enumerate(links):  # in round 0 there is no tracked gradient to tell yet
        assert messages[t].tolist() == (adjacency.sum(axis=0) * (2 if t else 1)).tolist()
        assert bits[t].tolist() == (messages[t] * (3 * 64 + 6)).tolist()


@pytest.mark.parametrize("links", [ALWAYS, EVERY_OTHER], ids=["always", "every other round"])
def test_choco_equals_the_loop(links):
    problem = Problem()
    for name, compress, bits_each in (("sign", oracle.scaled_sign, 6 + 64), ("", oracle.top_k(0.2), 2 * 64 + 6)):
        hparams = numbers_of("choco", name, lr=0.125, consensus_lr=0.375)
        models, messages, bits, _ = run(ALGORITHMS["choco"](Settings(compressor=name)), hparams, problem, links)
        expected = oracle.choco(problem.start, problem.gradient_of, mixes_of(links), 0.125, 0.375, compress)
        np.testing.assert_allclose(models, expected, rtol=1e-10, atol=1e-10)
        check_counts(messages, bits, links, bits_each)


def test_dcd_equals_the_loop_with_a_copy_at_each_neighbour():
    """From a common start, as the paper has it."""
    problem, hparams = Problem(), numbers_of("dcd_psgd", "sign", lr=0.125)
    start = np.tile(problem.start[:1], (5, 1))
    algorithm = ALGORITHMS["dcd_psgd"](Settings(compressor="sign"))
    models, messages, bits, state = run(algorithm, hparams, problem, ALWAYS, start)
    expected = oracle.dcd(start, problem.gradient_of, mixes_of(ALWAYS), 0.125, oracle.scaled_sign)
    np.testing.assert_allclose(models, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.known, models[-1], rtol=1e-14)  # neighbours know the models exactly
    check_counts(messages, bits, ALWAYS, 6 + 64)


@pytest.mark.parametrize("links", [ALWAYS, EVERY_OTHER], ids=["always", "every other round"])
def test_squarm_equals_the_loop(links):
    """Three local steps with momentum, and a trigger that fires for some only."""
    problem, trigger = Problem(), 2000.0
    hparams = numbers_of("squarm_sgd", lr=0.0625, consensus_lr=0.375, momentum=0.5, transmission=0.5, trigger=trigger)
    settings = Settings(num_local_steps=3, schedule=lambda k: 0.5 ** (k // 3))  # halved from round to round
    models, messages, bits, _ = run(ALGORITHMS["squarm_sgd"](settings), hparams, problem, links)
    lrs = [0.0625 * 0.5**t for t in range(len(links))]
    expected, sent = oracle.squarm(
        problem.start, problem.gradient_of, mixes_of(links), lrs, 0.375, oracle.top_k(0.5), 0.5, 3, trigger
    )
    np.testing.assert_allclose(models, expected, rtol=1e-10, atol=1e-10)
    assert any(any(s) and not all(s) for s in sent)
    for t, (adjacency, _) in enumerate(links):
        assert messages[t].tolist() == np.where(sent[t], adjacency.sum(axis=0), 0).tolist()
        assert bits[t].tolist() == (messages[t] * (3 * 64 + 6)).tolist()


@pytest.mark.parametrize("links", [ALWAYS, EVERY_OTHER], ids=["always", "every other round"])
def test_anq_nids_equals_the_loop(links):
    problem, hparams = Problem(), numbers_of("anq_nids", lr=0.125, eta=0.25, omega=0.125, eta_decay=0.5)
    models, messages, bits, _ = run(ALGORITHMS["anq_nids"](Settings()), hparams, problem, links)
    steps = np.cumsum([adjacency.any() for adjacency, _ in links])  # it waits where nobody has a link
    heard = [w for w, (adjacency, _) in zip(mixes_of(links), links) if adjacency.any()]
    expected, levels = oracle.anq_nids(problem.start, problem.gradient_of, heard, 0.125, 0.25, 0.125, 0.5)
    np.testing.assert_allclose(models, expected[[0, *steps]], rtol=1e-9, atol=1e-9)
    start = int(np.argmax(steps > 1)) if not links[0][0].any() else 1
    check_counts(messages, bits, links, None, start=start)
    for t, (adjacency, _) in enumerate(links):
        for i in np.flatnonzero(messages[t]):
            places = [2 * level if level > 0 else 1 - 2 * level for level in levels[steps[t] - 1][i].tolist()]
            assert bits[t][i] == adjacency[:, i].sum() * sum(2 * len(f"{place:b}") - 1 for place in places)


def test_exact_messages_make_nids_of_anq_nids():
    problem, (adjacency, mix) = Problem(), graph()
    hparams = numbers_of("anq_nids", "identity", lr=0.125)
    algorithm = ALGORITHMS["anq_nids"](Settings(compressor="identity"))
    models = run(algorithm, hparams, problem, [(adjacency, mix)] * 10)[0]
    expected = oracle.nids(problem.start, problem.gradient_of, mix, 0.125, 10)
    np.testing.assert_allclose(models, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", RIVALS)
def test_without_links_nothing_is_sent_and_clients_learn_alone_or_wait(name):
    """Plain descent, with the weight decay in the gradient, and momentum where the recursion has one."""
    problem, hparams = Problem(), resolved(name, "", {"lr": 0.125, "weight_decay": 0.25, "momentum": 0.0})
    models, messages, bits, _ = run(ALGORITHMS[name](Settings()), hparams, problem, [NO_LINKS] * 4)
    w = problem.start.copy()
    for _ in range(0 if name == "anq_nids" else 4):  # NIDS waits
        w = w - 0.125 * (np.stack([problem.gradient_of(i, w[i]) for i in range(5)]) + 0.25 * w)
    np.testing.assert_allclose(models[-1], w, rtol=1e-9, atol=1e-9)
    assert messages.sum() == bits.sum() == 0


@pytest.mark.parametrize("name", RIVALS)
def test_what_they_take_for_granted(name):
    algorithm = ALGORITHMS[name](Settings())
    assert algorithm.needs == {"adjacency", "mix", SYMMETRIC, FIXED}
    assert not algorithm.participates
    sparse = ALGORITHMS[name](Settings(compressor="top_k"))
    assert sparse.double_bits(numbers_of(name, "top_k"), 1000) == 63 * 200 + 1000
    assert ALGORITHMS[name](Settings(compressor="sign")).double_bits is None


def farthest(models, problem):
    return np.linalg.norm(models - problem.solution, axis=1).max()


def test_beer_and_anq_nids_converge_to_the_common_solution_of_unlike_clients():
    problem, links = Problem(), graph()
    alone = [np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(problem.a, problem.b)]
    assert farthest(np.stack(alone), problem) > 0.5  # it is not theirs
    beer = numbers_of("beer", lr=0.03125, consensus_lr=0.25, transmission=0.5)
    assert farthest(run_long(ALGORITHMS["beer"](Settings()), beer, problem, links, 4000), problem) < 1e-6
    nids = numbers_of("anq_nids", lr=0.125, eta=0.1, omega=0.1, eta_decay=0.97)
    assert farthest(run_long(ALGORITHMS["anq_nids"](Settings()), nids, problem, links, 2000), problem) < 1e-6


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "lr", "numbers"),
    [
        ("choco", 2.0**-4, {"transmission": 0.5, "consensus_lr": 0.25}),
        ("dcd_psgd", 2.0**-4, {"levels": 64}),
        ("squarm_sgd", 2.0**-7, {"transmission": 0.5, "consensus_lr": 0.25, "trigger": 1.0}),
    ],
)
def test_the_others_come_nearer_as_the_step_shrinks(name, lr, numbers):
    """A sixteenth of the step, sixteen times the rounds: less than a fifth of the distance."""
    problem, links, start = Problem(), graph(), np.zeros((5, 6))
    algorithm, hparams = ALGORITHMS[name](Settings()), numbers_of(name, **numbers)
    far, near = (
        farthest(run_long(algorithm, hparams.replace(lr=lr / part), problem, links, 1000 * part, start), problem)
        for part in (1, 16)
    )
    assert far > 0.005
    assert near < 0.2 * far


@pytest.mark.parametrize("name", ["beer", "squarm_sgd"])
def test_single_precision_stays_single(name):
    problem = Problem()
    params = problem.tree(jnp.asarray(problem.start, jnp.float32))
    algorithm, hparams = ALGORITHMS[name](Settings()), numbers_of(name)
    state = algorithm.init(hparams, params)
    links = Links(*map(jnp.asarray, graph()))._replace(mix=jnp.asarray(graph()[1], jnp.float32))
    after, _ = jax.eval_shape(lambda s: algorithm.round(hparams, jax.random.key(0), s, links, problem.gradient), state)
    assert jax.tree.map(lambda a: a.dtype, after) == jax.tree.map(lambda a: a.dtype, state)
