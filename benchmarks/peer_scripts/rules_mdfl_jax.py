"""Robust rules for twenty vectors and four attackers, with mdfl_jax: python rules_mdfl_jax.py CALLS"""

import json
import sys
import time
from functools import partial

import jax
import numpy as np

import mdfl_jax

vectors, found = jax.numpy.asarray(np.load("rules.npy")), {}
for name, rule in {"trimmed mean": "trimmed_mean_of_all", "Krum": "krum", "NNM, Krum": "nnm_krum"}.items():
    aggregate, wall, cpu = jax.jit(partial(mdfl_jax.aggregate, rule, max_attackers=4)), [], []
    for _ in range(int(sys.argv[1])):
        begin, begun = time.perf_counter(), time.process_time()
        result = aggregate(vectors).block_until_ready()
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begun)
    found[name] = {"wall": 1e3 * min(wall), "cpu": 1e3 * min(cpu), "norm": float(np.linalg.norm(result))}
print(json.dumps(found))
