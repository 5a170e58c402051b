"""What tools from outside compute: byzfl's rules and attacks, and gossipy's pushes (tests/oracles/)."""

import jax
import jax.numpy as jnp
import numpy as np
from least_squares import Problem, graph, run
from oracles import byzfl_outputs, gossipy_outputs

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.attacks.registry import ATTACKS, Target
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate


def test_rules_are_those_of_byzfl():
    """Everybody hears everybody, and all weights are the same."""
    judge = np.load(byzfl_outputs.FILE)
    num_clients = len(judge["models"])
    links = Links(~jnp.eye(num_clients, dtype=bool), jnp.full((num_clients, num_clients), 1 / num_clients))
    own = {"w": jnp.asarray(judge["models"], jnp.float32)}
    changed = {"geometric_median": {"weiszfeld_steps": 300}, "clipped_gossip": {"clip_radius": byzfl_outputs.TAU}}
    for rule in ("median", "trimmed_mean_of_all", "nnm_median", "geometric_median", "clipped_gossip"):
        numbers = AGGREGATIONS.numbers(rule)(**changed.get(rule, {})).typed()
        found = aggregate(rule, Heard(links, own, own, numbers)).models["w"]
        np.testing.assert_allclose(found, np.broadcast_to(judge[rule], found.shape), rtol=1e-5, atol=1e-5, err_msg=rule)


def test_attacks_are_those_of_byzfl():
    judge = np.load(byzfl_outputs.FILE)
    models = jnp.asarray(judge["models"], jnp.float32)
    bad = jnp.arange(len(models)) == 4
    changed = {"a_little_is_enough": {"deviations": 1.5}, "inner_product": {"strength": 0.4}}
    for name, numbers in changed.items():
        target = Target(models[0], models, ~bad, bad, jnp.ones(len(models)), ATTACKS.numbers(name)(**numbers).typed())
        np.testing.assert_allclose(ATTACKS[name].to_each(target), judge[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_pushes_are_those_of_gossipy():
    """Its simulator has been run with the same senders and receivers; it is a step ahead (gossipy_outputs.py)."""
    given = np.load(gossipy_outputs.FILE)
    num_clients = len(given["start"])
    with jax.enable_x64(True):
        problem = Problem(num_clients)
        problem.a, problem.b, problem.start = given["a"], given["b"], given["start"]
        pairs = [[(i, j) for i, j in enumerate(slot) if i < j] for slot in given["partners"]]
        push = ALGORITHMS["push"](Settings(sgd(momentum=False)))
        links = [graph(edges, num_clients) for edges in pairs]
        models = run(push, numbers_of("push", lr=gossipy_outputs.LR), problem, links)[0]
        gradients = [problem.flat(problem.gradient(problem.tree(jnp.asarray(slot)), None)[1]) for slot in models]
    ahead = models - gossipy_outputs.LR * np.stack(gradients)
    np.testing.assert_allclose(ahead, given["models"], rtol=1e-9)
    assert np.ptp(given["models"][-1], axis=0).max() > 0.01  # they have not all met
