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
