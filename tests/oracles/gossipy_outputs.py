"""What gossipy computes (github.com/makgyver/gossipy, commit ea85ab1), which brings PyTorch, for test_asynchronous.py.

Where it is on the path, `python tests/oracles/gossipy_outputs.py` writes gossipy_outputs.npz: gossip learning by pushes
of 12 clients, each of which has a least-squares problem. Its simulator runs; who sends to whom is given, a perfect
matching in each time step, and a client sends in every step. gossipy merges two models by their plain mean and then
makes a step. So its models after t steps are those of mdfl_jax's ``push`` after t slots and one more step; all models
are equally old, so that a mean by age is the plain one.
"""

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
N, ROWS, SIZE, SLOTS, LR = 12, 8, 6, 10, 0.0625


def made() -> dict[str, np.ndarray]:
    import torch
    from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
    from gossipy.model import TorchModel
    from gossipy.model.handler import TorchModelHandler
    from gossipy.node import GossipNode
    from gossipy.simul import GossipSimulator

    rng = np.random.default_rng(8)
    a, b, start = rng.normal(size=(N, ROWS, SIZE)), rng.normal(size=(N, ROWS)), rng.normal(size=(N, SIZE))
    partners = np.zeros((SLOTS, N), int)
    for slot in partners:
        order = rng.permutation(N).reshape(-1, 2)
        slot[order] = order[:, ::-1]
    models = np.zeros((SLOTS + 1, N, SIZE))

    class Linear(TorchModel):
        def __init__(self, first: np.ndarray) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor(first))

        def init_weights(self) -> None:
            """It begins with the given ones."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.w

    class Node(GossipNode):
        slot = 0

        def timed_out(self, t: int) -> bool:
            self.slot = t
            return True

        def get_peer(self) -> int:
            return int(partners[self.slot, self.idx])

    def half_the_square(y: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        return torch.mean((y - of) ** 2) / 2

    def node(i: int) -> Node:
        mode, step = CreateModelMode.MERGE_UPDATE, {"lr": LR}
        handler = TorchModelHandler(Linear(start[i]), torch.optim.SGD, step, half_the_square, 1, 0, mode)
        data = torch.tensor(a[i]), torch.tensor(b[i])
        return Node(i, (data, None), 1, handler, StaticP2PNetwork(N, None))

    class Watched(GossipSimulator):
        def notify_timestep(self, t: int) -> None:
            keep(t + 1)

    nodes = {i: node(i) for i in range(N)}

    def keep(t: int) -> None:
        models[t] = [nodes[i].model_handler.model.w.detach().numpy() for i in range(N)]

    class NoTest:
        def has_test(self) -> bool:
            return False

    simulator = Watched(nodes, NoTest(), 1, AntiEntropyProtocol.PUSH)
    simulator.init_nodes()
    keep(0)
    simulator.start(SLOTS)
    return {"a": a, "b": b, "start": start, "partners": partners, "models": models}


if __name__ == "__main__":
    np.savez(FILE, **made())
