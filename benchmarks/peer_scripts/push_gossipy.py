"""Gossip learning by pushes of eight clients on a ring, with gossipy: python push_gossipy.py ROUNDS SEEDS"""

import json
import sys

import networkx as nx
import numpy as np
import torch
from gossipy import set_seed
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
from gossipy.data import DataDispatcher
from gossipy.data.handler import ClassificationDataHandler
from gossipy.model.handler import TorchModelHandler
from gossipy.model.nn import LogisticRegression
from gossipy.node import GossipNode
from gossipy.simul import GossipSimulator

rounds, seeds = map(int, sys.argv[1:])
data = {name: torch.tensor(array) for name, array in np.load("ring.npz").items()}
shares = ClassificationDataHandler(data["x_train"], data["y_train"].float(), test_size=0)
dispatcher = DataDispatcher(shares, n=8, eval_on_user=False, auto_assign=False)
dispatcher.set_assignments([torch.where(data["owner"] == i)[0].tolist() for i in range(8)], None)
network, bce = StaticP2PNetwork(8, nx.to_numpy_array(nx.cycle_graph(8))), torch.nn.BCEWithLogitsLoss()
model = LogisticRegression(65, 1)
model.model = torch.nn.Linear(65, 1, bias=False)
torch.nn.init.zeros_(model.model.weight)

loss, accuracy = [], []
for seed in range(seeds):
    set_seed(seed)
    mode, sgd = CreateModelMode.MERGE_UPDATE, {"lr": 0.5}
    handler = TorchModelHandler(model, torch.optim.SGD, sgd, bce, local_epochs=1, batch_size=0, create_model_mode=mode)
    nodes = GossipNode.generate(dispatcher, network, handler, round_len=8, sync=True)
    simulator = GossipSimulator(nodes, dispatcher, delta=8, protocol=AntiEntropyProtocol.PUSH)
    simulator.init_nodes(seed)
    simulator.start(n_rounds=rounds)
    with torch.no_grad():
        logits = [node.model_handler.model(data["x_test"]) for node in nodes.values()]
        loss.append(np.mean([bce(of, data["y_test"].float()).item() for of in logits]))
        accuracy.append(np.mean([((of > 0) == data["y_test"]).float().mean().item() for of in logits]))
print(json.dumps({"loss": loss, "accuracy": accuracy}))
