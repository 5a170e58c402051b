"""Who was heard: against messages that are followed one by one, for every algorithm, in runs and in their files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import NO_LINKS, Problem, graph
from tiny import run_study

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.allreduce import ring
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.links import as_matrix
from mdfl_jax.core.sharding import heard_links
from mdfl_jax.core.types import Links
from mdfl_jax.metrics.values import HEARD
from mdfl_jax.study import make_study

LATER = {"beer", "dcd_psgd"}  # what they hear changes their models in the next round
ASIDE = {"allreduce", "server_fedavg"}  # they send over no link of the network
PASSES_ON = {"dmgt_svrg"}  # what was heard in a step of gossip, in the next step of the same round
NUMBERS = {"lr": 0.05, "num_peers": 1, "period_min": 1, "period_max": 3, "transmission": 0.5, "trigger": 2000.0}
WORLD = [graph(), NO_LINKS, graph(), graph(), graph()]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [n for n in ALGORITHMS if "at_server" not in ALGORITHMS[n](Settings()).needs])
def test_who_heard_whom_is_whose_model_changed_whose(name):
    """A client that starts a round with another model changes the models of those that hear it, and of nobody else."""
    with jax.enable_x64(True):
        problem, algorithm, numbers = Problem(), ALGORITHMS[name](Settings()), resolved(name, "", NUMBERS)
        state = algorithm.init(numbers, problem.tree(jnp.asarray(problem.start)))

        @jax.jit
        def step(key, state, links, moved):
            ids = {*map(id, jax.tree.leaves(models(state)))}
            move = lambda x: x + 100.0 * moved.reshape(-1, *[1] * (x.ndim - 1)) if id(x) in ids else x  # noqa: E731
            return algorithm.round(numbers, key, jax.tree.map(move, state), links, problem.gradient)

        def models(state):  # in the words of the state, if it has such a field: models may be made of them
            return state.params if hasattr(state, "params") else algorithm.params(state)

        for t, (adjacency, mix) in enumerate(WORLD):
            links, key = Links(jnp.asarray(adjacency), jnp.asarray(mix)), jax.random.key(t)
            following, stats = step(key, state, links, jnp.zeros(5))
            over = heard_links(links, stats)
            heard = np.asarray(as_matrix(over.adjacency, over.senders))
            messages = np.asarray(stats.messages)
            assert ((messages > 0) == heard.any(axis=0)).all() or name == "server_fedavg"
            assert not heard[~adjacency].any() or name in ASIDE
            assert (heard == adjacency).all() or HEARD in algorithm.metrics
            if name not in LATER | ASIDE | {"squarm_sgd"}:  # of which a client that has moved further speaks
                plain, changed = problem.flat(models(following)), np.zeros((5, 5), bool)
                for j in range(5):
                    other = problem.flat(models(step(key, state, links, jnp.eye(5)[j])[0]))
                    changed[:, j] = (other != plain).any(axis=1)
                reached = changed & (heard if name in PASSES_ON else ~np.eye(5, dtype=bool))
                np.testing.assert_array_equal(heard, reached, err_msg=f"round {t}")
            state = following


@pytest.mark.parametrize("members", ["11111", "1", "11", "10", "01101", "10010", "00100", "00000"])
def test_the_ring_of_an_all_reduce(members):
    awake = np.array([letter == "1" for letter in members])
    order, heard = np.flatnonzero(awake), np.zeros((len(awake), len(awake)), bool)
    for k, i in enumerate(order):
        if len(order) > 1:
            heard[i, order[k - 1]] = True  # the last one stands before the first
    links = jax.jit(ring)(jnp.asarray(awake))
    np.testing.assert_array_equal(as_matrix(links.adjacency, links.senders), heard)
    np.testing.assert_array_equal(links.senders.sums(links.adjacency), heard.sum(axis=0))


PERIOD, ROUNDS = 5, 10
IN_ROUND = {  # how many clients each one hears in rounds 0 and 5, and in the others, of the two in range
    "dpsgd": (2, 0),
    "pame": (1, 0),
    "allreduce": (1, 1),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("lists", ["dense", "lists"])
def test_files_tell_in_range_and_heard_apart(lists, tiny, tmp_path):
    """Each of six clients has two in range in every round, and communicates in every fifth one."""
    fields = {"network.graph": "ring", "rounds": ROUNDS, "eval_every": 5, "seeds": 1}
    fields |= {"algorithm.period_min": PERIOD, "algorithm.period_max": PERIOD, "engine.links": lists}
    run_study(make_study(tiny(sweep=f"algorithm.name={','.join(IN_ROUND)}", **fields)), tmp_path / "run")
    points = json.loads((tmp_path / "run/summary.json").read_text())["points"]
    with np.load(tmp_path / "run/history.npz") as found:
        history = dict(found)
    matrix = lambda array: np.unpackbits(array[0], axis=-1, count=6).astype(bool)  # noqa: E731
    for p, (name, (at_turn, between)) in enumerate(IN_ROUND.items()):
        assert (history[f"{p}/num_neighbours"][0, 1:] == 2).all(), name
        assert points[p]["group_neighbours"]["other"]["mean"] == 2 * ROUNDS, name
        links, heard = matrix(history[f"{p}/links"]), matrix(history[f"{p}/heard"])
        assert (links.sum(axis=2) == 2).all(), name
        np.testing.assert_allclose(history[f"{p}/num_heard"][0, 1:], heard.reshape(2, 5, 6, 6).sum(-1).mean(1))
        np.testing.assert_allclose(points[p]["group_heard"]["other"]["mean"], heard.sum((0, 2)).mean())
        for t in range(ROUNDS):
            assert (heard[t].sum(axis=1) == (between if t % PERIOD else at_turn)).all(), (name, t)
        sent = 2 * 5 * heard if name == "allreduce" else heard
        assert sent.sum((0, 1)).tolist() == history[f"{p}/messages"][0, -1].tolist(), name


def test_who_was_heard_at_the_server_is_who_exchanged_models_there(tiny, tmp_path):
    """Also through an imaginary channel, and at a server that everybody reaches whatever the meetings are."""
    names = ["async_fl", "virtual_upload", "virtual_download_once", "server_fedavg"]
    fields = {"server.pattern": "fixed", "server.interval": 4, "rounds": 8, "eval_every": 1, "seeds": 1}
    fields |= {"algorithm.download_after": 2, "sweep": f"algorithm.name={','.join(names)}"}
    run_study(make_study(tiny(**fields)), tmp_path / "run")
    with np.load(tmp_path / "run/history.npz") as found:
        history = dict(found)
    for p, name in enumerate(names[:3]):
        sent = np.diff(history[f"{p}/uploads"][0] + history[f"{p}/downloads"][0], axis=0)  # [R, N]
        np.testing.assert_array_equal(history[f"{p}/met_server"][0], sent > 0, err_msg=name)
    meets = history["0/met_server"][0]
    assert 0 < meets.sum() < meets.size
    assert not history["0/heard"].any()
    assert history["1/met_server"].all()
    assert (history["2/met_server"][0] & ~meets).any()
    assert history["3/met_server"].all()
    assert history["3/reached"].all()
    assert history["3/messages"][0, -1].tolist() == [2 * 8] * 6
