"""FedAvg of eight clients with a CNN on the digits, with mdfl_jax: python fedavg_mdfl_jax.py ROUNDS SEEDS"""

import json
import sys

import mdfl_jax

rounds, seeds = map(int, sys.argv[1:])
config = {
    "algorithm": {"name": "server_fedavg", "lr": 0.1, "lr_schedule": "constant", "local_epochs": 1, "batch_size": 32},
    "data": {"name": "fedavg", "dir": ".", "normalize": "none", "partition": "table", "table": "fedavg.npz"},
    "model": {"name": "cnn", "widths": (16, 32), "kernel": 3, "hidden": 64},
    "network": {"num_clients": 8},
    "rounds": rounds,
    "eval_every": 10,
    "seeds": seeds,
}
results = mdfl_jax.run(config, progress=False)
print(json.dumps({"accuracy": results.to_xarray().mean_model_accuracy.isel(point=0, round=-1).values.tolist()}))
