"""Robust rules for twenty vectors and four attackers, with byzfl: python rules_byzfl.py CALLS"""

import json
import sys
import time

import numpy as np
from byzfl import NNM, Krum, TrMean

vectors, krum, mix, found = np.load("rules.npy"), Krum(f=4), NNM(f=4), {}
for name, rule in {"trimmed mean": TrMean(f=4), "Krum": krum, "NNM, Krum": lambda x: krum(mix(x))}.items():
    wall, cpu = [], []
    for _ in range(int(sys.argv[1])):
        begin, begun = time.perf_counter(), time.process_time()
        result = rule(vectors)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begun)
    found[name] = {"wall": 1e3 * min(wall), "cpu": 1e3 * min(cpu), "norm": float(np.linalg.norm(result))}
print(json.dumps(found))
