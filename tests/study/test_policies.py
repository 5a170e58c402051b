"""What trains policies: the example of PPO, and the evolution strategy of `benchmarks/policy.py`."""

import numpy as np
import pytest

from examples import ppo
from mdfl_jax.mobility import MOBILITIES


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_ppo_trains_and_its_policy_enters_a_study(monkeypatch):
    monkeypatch.setattr(ppo, "ENVS", 2)
    monkeypatch.setattr(ppo, "STEPS", 8)
    small = {"rounds": 12, "data.limit_train": 200, "data.limit_test": 60, "network.grid_size": 6}
    lines = []
    params = ppo.train(ppo.study(eval_every=1, **small), "waiting", updates=2, log=lines.append)
    start = ppo.train(ppo.study(eval_every=1, **small), "waiting", updates=0)
    assert [line.split(":")[0] for line in lines] == ["update 2"]
    kernels = [tree["params"]["Dense_0"]["kernel"] for tree in (params, start)]
    assert np.isfinite(kernels[0]).all()
    assert not np.allclose(*kernels)
    ppo.enter(params)
    assert "ppo" in MOBILITIES
    compared = ppo.compare(ppo.study(**small), ("dcm", "random_movement"), seeds=2)
    assert [line.split(":")[0] for line in compared] == ["ppo", "dcm", "random_movement"]
    assert all("ppo over it: " in line and "±" in line for line in compared[1:])


def test_advantages_are_the_discounted_sums_of_the_errors_of_the_values():
    rng = np.random.default_rng(0)
    value, reward, last = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 2, 3)), rng.normal(size=(2, 3))
    done = (rng.random((6, 2, 3)) < 0.3).astype(float)
    empty = np.zeros(())
    steps = ppo.Transition(empty, empty, empty, empty, value, reward, done)._replace(
        seen=value, mask=value, action=value, log_prob=value
    )
    found = np.asarray(ppo.advantages(steps, last))
    later = np.concatenate([value[1:], last[None]])
    error = reward + ppo.DISCOUNT * later * (1 - done) - value
    for t in range(6):
        wanted, weight = np.zeros((2, 3)), np.ones((2, 3))
        for k in range(t, 6):
            wanted += weight * error[k]
            weight *= ppo.DISCOUNT * ppo.LAMBDA * (1 - done[k])
        np.testing.assert_allclose(found[t], wanted, rtol=2e-5, atol=1e-5)


def test_the_evolution_strategy_climbs():
    """A toy fitness: how near weights are to a point. From the start on, no policy is far better than the present."""
    pytest.importorskip("evosax")
    from benchmarks import evolution

    goal = np.linspace(-2, 2, 5)
    near = lambda weights: -np.square(weights - goal).sum(axis=1)  # noqa: E731
    search, state = evolution.search_of(np.zeros(5, np.float32))
    np.testing.assert_array_equal(state.mean, np.zeros(5))
    start = near(np.zeros((1, 5)))[0]
    for generation in range(60):
        state, found = evolution.evolved(search, state, generation, near)
        assert found.shape == (2 * evolution.PAIRS,)
    assert near(np.asarray(state.mean)[None])[0] > 0.1 * start
