"""FedAvg of eight clients with a CNN on the digits, with fluke: python fedavg_fluke.py ROUNDS SEEDS"""

import json
import sys

import numpy as np
import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.evaluation import ClassificationEval
from torch.nn import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
from torch.nn.init import kaiming_normal_, zeros_

rounds, seeds = map(int, sys.argv[1:])
data = {name: torch.tensor(array) for name, array in np.load("fedavg.npz").items()}
x, y, owner, x_test = data["x_train"].movedim(3, 1), data["y_train"], data["owner"], data["x_test"].movedim(3, 1)


def cnn():
    stages = [Conv2d(1, 16, 3, padding=1), MaxPool2d(2), ReLU(), Conv2d(16, 32, 3, padding=1), MaxPool2d(2), ReLU()]
    model = Sequential(*stages, Flatten(), Linear(128, 64), ReLU(), Linear(64, 10))
    for name, weights in model.named_parameters():  # as in flax
        zeros_(weights) if name.endswith("bias") else kaiming_normal_(weights, nonlinearity="linear")
    return model


def loader(x, y, **arguments):
    return FastDataLoader(x, y, num_labels=10, **arguments)


environment = FlukeENV()
environment.set_device("cpu")
environment.set_eval_cfg(server=False, locals=False, pre_fit=False, post_fit=False)
environment.set_evaluator(ClassificationEval(eval_every=rounds, n_classes=10))
accuracy = []
for seed in range(seeds):
    environment.set_seed(seed)
    shares = [loader(x[owner == i], y[owner == i], batch_size=32, shuffle=True) for i in range(8)]
    splitter = DataSplitter(DummyDataContainer(shares, [None] * 8, None, num_classes=10))
    sgd, schedule = DDict(name="SGD", lr=0.1), DDict(name="StepLR", gamma=1, step_size=1)
    client = DDict(batch_size=32, local_epochs=1, loss="CrossEntropyLoss", optimizer=sgd, scheduler=schedule)
    study = FedAVG(8, splitter, DDict(client=client, server=DDict(weighted=True), model=cnn()))
    study.run(rounds, 1.0)
    with torch.no_grad():
        accuracy.append((study.server.model(x_test).argmax(1) == data["y_test"]).float().mean().item())
print(json.dumps({"accuracy": accuracy}))
