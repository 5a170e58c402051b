"""The rivals: rounds as a researcher would write them in PyTorch (a loop, processes of one thread, torch.func).

Each rival computes the same round as our simulator: every client takes its local SGD steps on minibatches drawn from
its own samples, then all models are averaged with a given matrix. PyTorch is an optional extra of the benchmarks.
"""

import copy
import itertools
import multiprocessing as mp
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Setting(NamedTuple):
    """The sizes of a suite.

    Attributes:
      num_clients: The number of clients N.
      batch: The number of samples of a minibatch.
      steps: The number of local steps in a round.
      side: The images have side x side pixels.
      channels: The number of channels of the images.
      model: 'cnn', 'gn_lenet', 'resnet20', 'resnet18' or 'mlp'.
      widths: The number of channels of each convolution or of each stage of a ResNet; the widths of the layers (mlp).
      kernel: The kernel size of the convolutions (cnn, gn_lenet).
      hidden: The width of the dense layer (cnn).
    """

    num_clients: int
    batch: int
    steps: int
    side: int
    channels: int
    model: str
    widths: tuple[int, ...]
    kernel: int
    hidden: int


def network(setting: Setting) -> Any:
    """Build the model of a suite as a torch module."""
    from torch import nn

    if setting.model in ("resnet20", "resnet18"):
        return residual(setting)
    if setting.model == "mlp":
        sizes = (setting.channels * setting.side**2, *setting.widths)
        hidden = [part for n, m in itertools.pairwise(sizes) for part in (nn.Linear(n, m), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(sizes[-1], 10))
    layers: list[Any] = []
    channels, side = setting.channels, setting.side
    for width in setting.widths:
        layers.append(nn.Conv2d(channels, width, setting.kernel, padding=setting.kernel // 2))
        layers += [nn.GroupNorm(2, width)] if setting.model == "gn_lenet" else []
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        channels, side = width, side // 2
    layers.append(nn.Flatten())
    features = channels * side * side
    if setting.model == "cnn":
        layers += [nn.Linear(features, setting.hidden), nn.ReLU()]
        features = setting.hidden
    return nn.Sequential(*layers, nn.Linear(features, 10))


def residual(setting: Setting) -> Any:
    """Build ResNet-20, whose shortcuts have no parameters, or ResNet-18, whose first convolution is 3x3 here too."""
    from torch import nn
    from torch.nn import functional

    projected, blocks = {"resnet20": (False, 3), "resnet18": (True, 2)}[setting.model]

    class Block(nn.Module):
        def __init__(self, before: int, width: int, stride: int):
            super().__init__()
            self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
            self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
            self.stride, self.new = stride, width - before
            self.short: Any = None
            if projected and self.new:
                self.short = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            if self.short:
                return functional.relu(y + self.short(x))
            short = x[:, :, :: self.stride, :: self.stride]
            return functional.relu(y + functional.pad(short, (0, 0, 0, 0, 0, self.new)))

    first = setting.widths[0]
    layers: list[Any] = [nn.Conv2d(setting.channels, first, 3, padding=1, bias=False), nn.BatchNorm2d(first), nn.ReLU()]
    for stage, width in enumerate(setting.widths):
        for i in range(blocks):
            before = setting.widths[stage - 1] if stage and not i else width
            layers.append(Block(before, width, 2 if stage and not i else 1))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(setting.widths[-1], 10))


class Loop:
    """The plain loop: it trains one client after the other, then averages all models as one flat [N, d] matrix.

    In bfloat16 it computes as PyTorch's guides advise: products by ``autocast``, and channels last.
    """

    def __init__(
        self, setting: Setting, clients: range, device: str = "cpu", samples: int = 300, precision: str = "float32"
    ):
        import torch

        self.setting, self.clients, self.device, self.samples = setting, clients, device, samples
        self.autocast = lambda: torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tensorfloat32"
        torch.manual_seed(0)
        self.order: Any = torch.channels_last if precision == "bfloat16" else torch.contiguous_format
        model = network(setting).to(memory_format=self.order)
        self.models = [copy.deepcopy(model).to(device) for _ in clients]
        self.optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in self.models]
        shape = (len(clients), samples, setting.channels, setting.side, setting.side)
        self.images = torch.randint(0, 255, shape, dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 10, (len(clients), samples), device=device)

    def train(self) -> None:
        """Take the local steps of every client."""
        import torch
        from torch.nn import functional

        for i, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
            for _ in range(self.setting.steps):
                drawn = torch.randint(0, self.samples, (self.setting.batch,), device=self.device)
                images = ((self.images[i, drawn].float() - 127.0) / 64.0).contiguous(memory_format=self.order)
                optimizer.zero_grad(set_to_none=True)
                with self.autocast():
                    loss = functional.cross_entropy(model(images), self.labels[i, drawn])
                loss.backward()
                optimizer.step()

    def flat(self) -> Any:
        """Return the parameters of all clients as one tensor [clients, d]."""
        import torch

        vectors = [torch.cat([p.detach().reshape(-1) for p in model.parameters()]) for model in self.models]
        return torch.stack(vectors)

    def load(self, rows: Any) -> None:
        """Load the clients' parameters from the rows of a matrix [clients, d]."""
        import torch

        with torch.no_grad():
            for model, row in zip(self.models, rows):
                own = list(model.parameters())
                for parameter, part in zip(own, row.split([one.numel() for one in own])):
                    parameter.copy_(part.view_as(parameter))  # which keeps the order of its axes in memory

    def round(self, mix: Any) -> None:
        """Run one round of all clients with a mixing matrix [N, N]."""
        self.train()
        self.load(mix @ self.flat())
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()


class Stacked:
    """The torch.func rival: vmap of grad over stacked parameters; each parameter tensor is averaged by one product."""

    def __init__(self, setting: Setting, device: str = "cpu", samples: int = 300):
        import torch
        from torch.func import functional_call, grad, stack_module_state, vmap
        from torch.nn import functional

        self.setting, self.samples, self.device = setting, samples, device
        models = [network(setting).to(device) for _ in range(setting.num_clients)]
        params, _ = stack_module_state(models)
        self.params = {name: value.detach() for name, value in params.items()}
        skeleton = copy.deepcopy(models[0]).to("meta")
        shape = (setting.num_clients, samples, setting.channels, setting.side, setting.side)
        self.images = torch.randint(0, 255, shape, dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 10, (setting.num_clients, samples), device=device)

        def loss(params: Any, images: Any, labels: Any) -> Any:
            return functional.cross_entropy(functional_call(skeleton, params, (images,)), labels)

        self.gradients = vmap(grad(loss))

    def round(self, mix: Any) -> None:
        """Run one round of all clients with a mixing matrix [N, N]."""
        import torch

        clients = torch.arange(self.setting.num_clients, device=self.device)[:, None]
        for _ in range(self.setting.steps):
            drawn = torch.randint(0, self.samples, (self.setting.num_clients, self.setting.batch), device=self.device)
            images = (self.images[clients, drawn].float() - 127.0) / 64.0
            gradients = self.gradients(self.params, images, self.labels[clients, drawn])
            self.params = {name: value - 0.01 * gradients[name] for name, value in self.params.items()}
        self.params = {name: torch.einsum("ij,j...->i...", mix, value) for name, value in self.params.items()}
        if self.device != "cpu":
            torch.cuda.synchronize()


def _worker(setting: Setting, clients: range, mix: np.ndarray, shared: Any, barrier: Any, stop: Any) -> None:
    """Run a process of one thread that trains its share of the clients; models are averaged through shared memory."""
    import torch

    torch.set_num_threads(1)
    mine = Loop(setting, clients)
    rows = torch.as_tensor(mix[clients.start : clients.stop])
    barrier.wait()
    while True:
        barrier.wait()
        if stop.value:
            return
        mine.train()
        shared[clients.start : clients.stop] = mine.flat()
        barrier.wait()  # now all models are in the shared memory
        mine.load(rows @ shared)
        barrier.wait()


class Processes:
    """Processes of one thread each that divide the clients and exchange models through shared memory."""

    def __init__(self, setting: Setting, mix: np.ndarray, count: int):
        import torch
        import torch.multiprocessing as tmp

        parameters = sum(p.numel() for p in network(setting).parameters())
        shared = torch.zeros(setting.num_clients, parameters).share_memory_()
        context = tmp.get_context("spawn")
        self.barrier, self.stop = context.Barrier(count + 1), context.Value("b", 0)
        cuts = np.linspace(0, setting.num_clients, count + 1).astype(int)
        shares = [range(int(a), int(b)) for a, b in itertools.pairwise(cuts)]
        self.workers: list[mp.process.BaseProcess] = [
            context.Process(target=_worker, args=(setting, share, mix, shared, self.barrier, self.stop), daemon=True)
            for share in shares
        ]
        for worker in self.workers:
            worker.start()
        self.barrier.wait()

    def round(self) -> None:
        """Run one round of all clients."""
        for _ in range(3):
            self.barrier.wait()

    def close(self) -> None:
        """End the processes."""
        self.stop.value = 1
        self.barrier.wait()
        for worker in self.workers:
            worker.join()


def rivals(
    setting: Setting, mix: np.ndarray, threads: int, precision: str = "float32"
) -> tuple[dict[str, Callable[[], None]], Callable[[], None]]:
    """Prepare the rivals of a suite.

    Args:
      setting: The sizes of the suite.
      mix: [N, N] mixing matrix.
      threads: The number of threads of the loop and of torch.func, and the number of processes.
      precision: The precision of the loop's products on a GPU.

    Returns:
      The calls that run one round, by name, and a call that ends the processes.
    """
    import torch

    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights = torch.as_tensor(mix, device=device)
    loop = Loop(setting, range(setting.num_clients), device, precision=precision if device == "cuda" else "float32")
    calls = {"torch loop": lambda: loop.round(weights)}
    if not setting.model.startswith("resnet"):  # torch.func refuses running statistics that are changed in place
        stacked = Stacked(setting, device)
        calls["torch.func vmap"] = lambda: stacked.round(weights)
    if device != "cpu":
        return calls, lambda: None
    processes = Processes(setting, mix, threads)
    calls[f"torch, {threads} processes of one thread"] = processes.round
    return calls, processes.close
