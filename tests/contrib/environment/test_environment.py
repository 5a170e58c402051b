"""The environment: the same numbers as the study, what agents see, rewards, `jit`, `vmap`, and episodes that follow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_differ, assert_trees_equal, told
from tiny import tiny_config

import mdfl_jax
from mdfl_jax.study import make_study

ROUNDS = 8


def config_of(**changes):
    size = {"network.num_clients": 8, "network.grid_size": 7, "network.radius": 2.0, "network.max_step": 2.0}
    return tiny_config(rounds=ROUNDS, eval_every=1, **(size | changes))


def ordinary(config, seed=0):
    """The destinations of the clients in each round of a run, [R, N], and its metrics at each evaluation."""
    (group,) = make_study(config).groups
    simulation, hparams, key = group.simulation, group.hparams[0], jax.random.key(seed)

    @jax.jit
    def run():
        carry, first = simulation.init(simulation.data, hparams, key)

        def advance(carry, _):
            carry, metrics = simulation.advance(simulation.data, hparams, key, carry)
            rule = space(carry.network).rules[0]
            clients = rule[0] if isinstance(rule, tuple) and not hasattr(rule, "clients") else rule.clients
            return carry, (clients.destination, metrics)

        return first, *jax.lax.scan(advance, carry, None, length=simulation.num_evaluations)[1]

    return jax.device_get(run())


def space(network):
    return space(network.inner) if hasattr(network, "inner") else network


def played(env, params, actions, seed=0):
    """The observations, rewards, ends and metrics of an episode with given actions, [R, ...]."""

    @jax.jit
    def run(actions):
        obs, state = env.reset(jax.random.key(seed), params)

        def step(carry, action):
            obs, state = carry
            after, state, reward, done, metrics = env.step(jax.random.key(99), state, action, params)
            return (after, state), (obs, reward, done, metrics)

        return jax.lax.scan(step, (obs, state), actions)[1]

    return jax.device_get(run(jnp.asarray(actions)))


PLANE = {"network.world": "plane", "network.radius": 60.0, "motion.width": 200.0, "motion.height": 200.0,
         "motion.dt": 6.0, "motion.speed_min": 5.0}  # fmt: skip
SAME = {
    "random_movement": {"algorithm.participation": 0.5, "cost.joules_per_metre": 2.0},
    "dcm, met": {"motion.knowledge": "met"},
    "waiting, plane": PLANE | {"network.contact": "swept", "network.link_failure": 0.3},
}


@pytest.mark.long
@pytest.mark.parametrize("name", SAME)
def test_who_chooses_as_a_rule_does_has_the_numbers_of_the_study_step_for_step(name):
    config = config_of(**SAME[name], **{"network.mobility": name.partition(",")[0]})
    first, destinations, metrics = ordinary(config, seed=3)
    env, params = mdfl_jax.environment(config)
    actions = destinations[:, :2]  # of the mobile clients
    _, rewards, done, seen = played(env, params, actions, seed=3)
    common = set(metrics) & set(seen)
    assert {"accuracy", "loss", "consensus_distance", "distance_moved", "num_neighbours", "bits"} <= common
    assert_trees_equal({key: metrics[key] for key in common}, {key: seen[key] for key in common}, 1e-6)
    accuracy = np.concatenate([[first["accuracy"].mean()], metrics["accuracy"].mean(axis=1)])
    np.testing.assert_allclose(rewards, np.diff(accuracy), atol=1e-6)
    assert done.tolist() == [False] * (ROUNDS - 1) + [True]
    assert len(np.unique(actions)) > 1


def waited(met, position, t):
    """The reward by hand; ``met`` is the round in which each mobile client was last in range of each other one."""
    place = np.asarray(position)
    met[np.linalg.norm(place[:2, None] - place[None, 2:], axis=2) <= 2.0] = t
    return pytest.approx(-np.mean(t - met), abs=1e-5)


def test_episodes_are_compiled_mapped_and_follow_one_another():
    """Their rewards count the rounds since each mobile client was in range of another one."""
    env, params = mdfl_jax.environment(config_of(), reward="waiting")
    assert (env.num_agents, env.num_actions, env.num_steps) == (2, 49, ROUNDS)
    steps = ROUNDS + 2
    actions = jax.random.randint(jax.random.key(5), (steps, 2, 2), 0, env.num_actions)
    one, step = jax.jit(env.reset), jax.jit(env.step)
    each = jax.jit(jax.vmap(env.step, (0, 0, 0, None)))
    alone, ahead = one(jax.random.key(1), params)[1], one(jax.random.key(2), params)[1]
    for t in range(ROUNDS // 2):  # the second is half an episode ahead, so that they end at different times
        ahead = step(jax.random.key(0), ahead, actions[t, 1], params)[1]
    state = jax.tree.map(lambda *x: jnp.stack(x), alone, ahead)
    met, rewarded = np.full((2, 6), -1), []
    waited(met, alone.carry.network.places.position, 0)
    for t in range(steps):
        keys = jax.random.split(jax.random.key(t), 2)
        obs, state, rewards, done, _ = each(keys, state, actions[t], params)
        seen, alone, *told_alone = step(keys[0], alone, actions[t, 0], params)
        assert_trees_equal(jax.tree.map(lambda x: x[0], (obs, rewards, done)), (seen, *told_alone[:2]), 1e-6)
        if t + 1 < ROUNDS:
            assert told_alone[0] == waited(met, alone.carry.network.places.position, t + 1)
            rewarded.append(float(told_alone[0]))
        assert done.tolist() == [t + 1 == ROUNDS, t + 1 == ROUNDS // 2]
        for i in np.flatnonzero(done):
            fresh, begun = one(keys[i], params)
            now = jax.tree.map(lambda x, i=i: x[i], state)
            assert_trees_equal((jax.tree.map(lambda x, i=i: x[i], obs), now.carry), (fresh, begun.carry), 1e-6)
            assert (jax.random.key_data(now.key) == jax.random.key_data(keys[i])).all()
    assert len({*rewarded}) > 3
    assert int(alone.carry.round) == 2
    assert_trees_differ(obs.seen[0], obs.seen[1])
    _, diverging = mdfl_jax.environment(config_of(**{"algorithm.lr": 1e12}), reward="waiting")
    state, rewards = one(jax.random.key(1), diverging)[1], []
    for t in range(3):
        _, state, reward, done, _ = step(keys[0], state, actions[t, 0], diverging)
        rewards += [float(reward)] if done else []
    assert rewards
    assert set(rewards) == {0.0}  # an episode that diverges ends without a reward


def test_what_an_environment_cannot_have_is_one_line():
    wait = {"network.mobility": "random_waypoint", "motion.warm_up": 5, "motion.width": 9.0, "motion.height": 9.0}
    for changes, line in (
        ({"sweep": "network.radius=1,2"}, "sweep is 'network.radius=1,2'; in an environment it must be '', or have "),
        ({"network.graph": "ring"}, "network.graph is 'ring'; in an environment it must be '': agents move in space"),
        ({"network.num_mobile": 0}, "network.num_mobile is 0; in an environment it must be at least 1: each mobile"),
        ({"network.order": "move_first"}, "network.order is 'move_first'; in an environment it must be mix_first"),
        (wait, "motion.warm_up is 5; in an environment it must be 0"),
    ):
        assert told(mdfl_jax.environment, config_of(**changes)).startswith(line)
    line = told(mdfl_jax.environment, config_of(), reward="acuracy")
    assert line.startswith("unknown reward 'acuracy' (did you mean 'accuracy'?)")
