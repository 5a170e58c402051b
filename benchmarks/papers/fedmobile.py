"""Compute FedMobile's figures 3 to 6 and 8 to 16; print our values and the paper's claims.

python -m benchmarks.papers.fedmobile --figure=3 [--scale=small|paper] [--workdir=runs/papers] [--json=FILE]

Figure 3 is least squares. Both scales use the paper's size, which takes a minute or two. The other figures use
Fashion-MNIST with LeNet (MDFL_DATA_DIR holds fashion_mnist.npz). Their scale `small` has 10 clients, 2,000 images and
60 slots; it only shows that everything runs.
"""

from collections.abc import Callable

from ml_collections import ConfigDict

from benchmarks.papers.figures import Figures, Point, Table, cell, run, small, study, value_of
from configs import fedmobile_fmnist, fedmobile_synthetic


def _slots(point: Point) -> str:
    """Format the slots to the target: the mean over the seeds that reach it, with their number if not all do."""
    reached = [r for r in point["rounds_to_target_per_seed"] if r is not None]
    seeds = len(point["rounds_to_target_per_seed"])
    told = f"{sum(reached) / len(reached):.0f}" if reached else "-"
    return told if len(reached) == seeds else f"{told} ({len(reached)} of {seeds} seeds)"


def _table(title: str, config: ConfigDict, accuracy: bool) -> Table:
    points = study(config)
    axes = list(points[0]["overrides"])
    rows = []
    for p in points:
        gain = p["difference_to_baseline"]
        measured = [cell(p["final_accuracy"], 100, 4), "-" if gain is None else cell(gain, 100)]
        rest = [_slots(p)] if accuracy else [cell(p["mean_model_loss"], 1, 4)]
        bits = f"{p['bits_sent_per_client'] / 1e6:.3g}"
        rows.append([", ".join(value_of(p, axis) for axis in axes), *measured, *rest, bits])
    first = ", ".join(axis.split(".")[-1] for axis in axes)
    measured = (
        ["accuracy (%)", "over ASYNC (points)", "slots to 70 %"] if accuracy else ["R^2 (%)", "over ASYNC", "loss"]
    )
    return title, [first, *measured, "Mbit a client"], rows


def figure_3() -> list[Table]:
    """Compute figure 3, least squares: variants, search intervals, rho, numbers of relays."""
    studies = ("variants", "upload", "download", "rho", "uploads", "downloads")
    return [_table(name, fedmobile_synthetic.get_config(name), accuracy=False) for name in studies]


def images(*arguments: str) -> Callable[[], list[Table]]:
    """Return a function that computes a figure from these studies of configs/fedmobile_fmnist.py."""

    def make() -> list[Table]:
        found = []
        for argument in arguments:
            config = fedmobile_fmnist.get_config(argument)
            if small():
                config.name += "_small"
                config.network.num_clients, config.data.limit_train, config.data.limit_test = 10, 2000, 500
                config.rounds, config.eval_every = 60, 10
                config.seeds = 2
            found.append(_table(argument, config, accuracy=True))
        return found

    return make


FIGURES: Figures = {
    "3": (figure_3, "both relays help and together most; search in the middle is best; more meetings and relays help"),
    "4": (
        images("headline", "random"),
        "fixed intervals: 70 % in 178 slots by ASYNC, in 115 by FedMobile, 35.4 % fewer",
    ),
    "5": (
        images("fixed", "upload", "download", "uploads"),
        "each relay helps, both more; not too early, not too late",
    ),
    "6": (images("random", "uploads", "rho"), "the same under random intervals; a higher rho converges faster"),
    "8": (images("virtual"), "Virtual-U is far ahead; Virtual-D fails to converge"),
    "9": (images("local"), "relays that send local models still beat ASYNC"),
    "10": (images("download"), "downloads neither too early nor too late"),
    "11": (images("rho"), "a higher rho converges faster, fixed intervals"),
    "12": (images("interval70"), "FedMobile beats ASYNC with intervals of 70"),
    "13": (images("clients100"), "FedMobile beats ASYNC with 100 clients"),
    "14": (images("exponential", "exponential_unknown"), "FedMobile beats ASYNC under exponential gaps, known or not"),
    "15": (images("noise"), "noise on relayed updates costs accuracy as it grows"),
    "16": (images("quantised"), "coarser quantisation costs accuracy"),
}

if __name__ == "__main__":
    run(FIGURES)
