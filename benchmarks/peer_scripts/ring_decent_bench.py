"""Logistic regression of eight clients on a ring, with decent-bench: python ring_decent_bench.py ROUNDS SEEDS"""

import json
import sys

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_array.types import Devices, Frameworks
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import ATC
from decent_bench.benchmark import BenchmarkProblem, benchmark, configure
from decent_bench.costs import LogisticRegressionCost
from decent_bench.networks import P2PNetwork


def cost(x, y):
    return LogisticRegressionCost([(iop.from_numpy(a), iop.from_numpy(b)) for a, b in zip(x, y.astype(np.float32))])


rounds, seeds = map(int, sys.argv[1:])
configure(Frameworks.NUMPY, Devices.CPU, seed=0)
data = np.load("ring.npz")
x, y, owner = data["x_train"], data["y_train"], data["owner"]
agents = [Agent(cost(x[owner == i], y[owner == i]), state_snapshot_period=rounds) for i in range(8)]
problem = BenchmarkProblem(P2PNetwork(graph=nx.cycle_graph(8), agents=agents))
(networks,) = benchmark([ATC(step_size=0.5)], problem, rounds, n_trials=seeds).states.values()

test, correct = cost(data["x_test"], data["y_test"]), data["y_test"].T
models = [[agent.x for agent in network.agents()] for network in networks]
loss = [np.mean([test.function(x) for x in of]) for of in models]
accuracy = [np.mean((iop.to_numpy(iop.stack(of)) @ data["x_test"].T > 0) == correct) for of in models]
print(json.dumps({"loss": loss, "accuracy": accuracy}))
