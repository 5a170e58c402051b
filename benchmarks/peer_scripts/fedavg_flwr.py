"""FedAvg of eight clients with a CNN on the digits, with Flower: python fedavg_flwr.py ROUNDS SEEDS"""

import json
import sys

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
from torch.nn.init import kaiming_normal_, zeros_

rounds, seeds = map(int, sys.argv[1:])
data = {name: torch.tensor(array) for name, array in np.load("fedavg.npz").items()}
x, y, owner, x_test = data["x_train"].movedim(3, 1), data["y_train"], data["owner"], data["x_test"].movedim(3, 1)
client, accuracy = ClientApp(), []


def cnn():
    stages = [Conv2d(1, 16, 3, padding=1), MaxPool2d(2), ReLU(), Conv2d(16, 32, 3, padding=1), MaxPool2d(2), ReLU()]
    model = Sequential(*stages, Flatten(), Linear(128, 64), ReLU(), Linear(64, 10))
    for name, weights in model.named_parameters():  # as in flax
        zeros_(weights) if name.endswith("bias") else kaiming_normal_(weights, nonlinearity="linear")
    return model


@client.train()
def train(message, context):
    model, mine = cnn(), owner == context.node_config["partition-id"]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sgd, (xs, ys) = torch.optim.SGD(model.parameters(), lr=0.1), (x[mine], y[mine])
    for batch in torch.randperm(len(ys)).split(32):
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(xs[batch]), ys[batch]).backward()
        sgd.step()
    reply = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(ys)})}
    return Message(content=RecordDict(reply), reply_to=message)


server = ServerApp()


@server.main()
def main(grid, context):
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = cnn()
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=8, min_available_nodes=8)
        result = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds)
        model.load_state_dict(result.arrays.to_torch_state_dict())
        accuracy.append((model(x_test).argmax(1) == data["y_test"]).float().mean().item())


run_simulation(server, client, num_supernodes=8)
print(json.dumps({"accuracy": accuracy}))
