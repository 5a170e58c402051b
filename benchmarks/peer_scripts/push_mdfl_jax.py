"""Gossip learning by pushes of eight clients on a ring, with mdfl_jax: python push_mdfl_jax.py ROUNDS SEEDS"""

import json
import sys

import jax.numpy as jnp

import mdfl_jax

rounds, seeds = map(int, sys.argv[1:])
config = {
    "algorithm": {"name": "push", "lr": 0.5, "lr_schedule": "constant", "batch_size": 0},
    "data": {"name": "ring", "dir": ".", "normalize": "none", "partition": "table", "table": "ring.npz"},
    "network": {"num_clients": 8, "graph": "ring"},
    "rounds": rounds,
    "eval_every": rounds,
    "seeds": seeds,
}
linear = (lambda key, x: {"w": jnp.zeros(65)}, lambda params, x: x @ params["w"][:, None])
results = mdfl_jax.run(config, model=linear, progress=False)
last = results.to_xarray().isel(point=0, round=-1).mean("client")
print(json.dumps({"loss": last.loss.values.tolist(), "accuracy": last.accuracy.values.tolist()}))
