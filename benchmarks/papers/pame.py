"""Compute PaME's figures 2 to 12; print our values and the paper's claims.

python -m benchmarks.papers.pame --figure=9 [--scale=small|paper] [--workdir=runs/papers] [--json=FILE]

Figures that use the same runs share a workdir, so a finished study is read and not run again. The scale `small` takes
seconds per figure and only shows that everything runs; `paper` has the paper's numbers of nodes and coordinates. The
docstrings of the configs list the settings that the paper does not give (samples, graph, grid of step sizes).
"""

from collections.abc import Callable

from ml_collections import ConfigDict

from benchmarks.papers.figures import Figures, Point, Table, best, cell, pivot, run, small, study
from configs import cifar_resnet, pame_fashion, pame_linear, pame_logistic


def _linear(argument: str) -> list[Point]:
    return study(pame_linear.get_config(argument + ("_small" if small() else "")))


def objective(point: Point) -> str:
    """Format the final objective per node, f / m."""
    return cell(point["objective"], 1 / point["overrides"].get("network.num_clients", 64), 4)


def iterations(point: Point) -> str:
    """Format the number of iterations until the paper's stop rule ends the run."""
    return cell(point["rounds_done"])


AXES = {
    "transmission": "algorithm.transmission",
    "participation": "algorithm.participation",
    "period": "algorithm.period_max",
    "period_drawn": "algorithm.period_max",
}


def figure_2() -> list[Table]:
    """Compute figure 2: final objectives by transmission rate, participation rate and period."""
    found = []
    for argument, axis in AXES.items():
        header, rows = pivot(_linear(argument), "network.num_clients", axis, objective)
        found.append((f"final objective a node, by {argument}", header, rows))
    return found


def convergence(argument: str) -> list[Table]:
    """Compute one of the figures 3 to 6 in numbers: the iterations to the stop."""
    header, rows = pivot(_linear(argument), "network.num_clients", AXES[argument], iterations)
    return [(f"iterations to the stop, by {argument}", header, rows)]


def figure_7() -> list[Table]:
    """Compute figure 7: objective, iterations and seconds by density of the graph and transmission rate."""
    points, found = _linear("connectivity"), []
    nodes = 16 if small() else 64
    seconds = lambda p: f"{p['run_seconds'] / len(p['rounds_done']['per_seed']):.2g}"  # noqa: E731
    for title, take in (
        ("final objective a node", lambda p: cell(p["objective"], 1 / nodes, 4)),
        ("iterations to the stop", iterations),
        ("seconds of a run", seconds),
    ):
        found.append((title, *pivot(points, "graph.probability", "algorithm.transmission", take)))
    return found


def figure_8() -> list[Table]:
    """Compute figure 8: accuracy, and rounds and bits to the target, of each algorithm at its best step size."""
    found = []
    for argument in ("small",) if small() else ("m32", "m64", "m128"):
        rows = []
        for name, p in best(pame_logistic.get_config(argument)):
            reached = [b / 1e6 for b in p["bits_to_target_per_seed"] if b is not None]
            seeds = len(p["bits_to_target_per_seed"])
            bits = f"{sum(reached) / seeds:.3g}" if len(reached) == seeds else f"- ({len(reached)} of {seeds} seeds)"
            rows.append(
                [
                    name,
                    f"{p['overrides']['algorithm.lr']:g}",
                    cell(p["final_accuracy"], 100, 4),
                    cell(p["validation_loss"]),
                    str(p["rounds_to_target"] or "-"),
                    bits,
                    f"{p['bits_sent_per_client'] / 1e6:.4g}",
                    "-" if p["double_bits_per_client"] is None else f"{p['double_bits_per_client'] / 1e6:.4g}",
                ]
            )
        header = ["algorithm", "lr", "accuracy (%)", "validation loss", "rounds to target", "Mbit to target"]
        found.append((argument, [*header, "Mbit in all", "as the paper counts"], rows))
    return found


def _to_the_stop() -> list[tuple[str, str, dict[str, Point]]]:
    """Run the studies of figures 9 and 10; step sizes are chosen at the smallest m with one separate seed.

    Returns (m, n, points by algorithm) for each pair of m and n.
    """
    nodes, sizes = ((8, 16), (50, 100)) if small() else ((32, 64, 128), (1000, 5000, 10000))
    found = []
    for n in sizes:
        chosen: dict[str, float] = {}
        for m in (0, *nodes):
            config = pame_logistic.get_config("small" if small() else "m32")
            config.eval_every, config.stop_std = 20, 1e-3
            config.data.dimension, config.network.num_clients = n, m or nodes[0]
            config.name = f"pame_stop_{'small' if small() else 'paper'}_n{n}_" + (f"m{m}" if m else "steps")
            config.seeds, config.first_seed = (3, 0) if m else (1, 100)
            if m:
                tied = ",".join(f"{name}+{lr:g}" for name, lr in chosen.items())
                config.sweep, config.select = f"algorithm.name+algorithm.lr={tied}", ""
                found.append((str(m), str(n), {p["overrides"]["algorithm.name"]: p for p in study(config)}))
            else:
                chosen = {name: p["overrides"]["algorithm.lr"] for name, p in best(config)}
    return found


def _stop_table(title: str, take: Callable[[Point], str]) -> list[Table]:
    runs = _to_the_stop()
    names = list(dict.fromkeys(name for *_, points in runs for name in points))
    rows = [[m, n, *(take(points[name]) if name in points else "-" for name in names)] for m, n, points in runs]
    return [(title, ["m", "n", *names], rows)]


def figure_9() -> list[Table]:
    """Compute figure 9: iterations to the stop by m and n."""
    return _stop_table("iterations to the stop (5 a communication)", iterations)


def figure_10() -> list[Table]:
    """Compute figure 10: communication volume to the stop, and the accuracy there, by m and n."""
    ours = _stop_table("megabits a client to the stop, our count", lambda p: f"{p['bits_sent_per_client'] / 1e6:.3g}")
    accuracy = _stop_table("test accuracy at the stop (%)", lambda p: cell(p["final_accuracy"], 100))
    return ours + accuracy


def _images(configs: dict[str, ConfigDict]) -> list[Table]:
    header = ["algorithm", "lr", "accuracy (%)"]
    found = []
    for title, config in configs.items():
        rows = [
            [name, f"{p['overrides']['algorithm.lr']:g}", cell(p["final_accuracy"], 100, 4)] for name, p in best(config)
        ]
        found.append((title, header, rows))
    return found


def _sized(argument: str) -> str:
    return argument + ("_small" if small() else "")


def figure_11() -> list[Table]:
    """Compute figure 11: accuracy on Fashion-MNIST with C classes per node."""
    return _images({f"C = {c}": pame_fashion.get_config(_sized(f"c{c}")) for c in (1, 7, 10)})


def figure_12() -> list[Table]:
    """Compute figure 12: accuracy on CIFAR-10 with ResNet-20, with IID and Dirichlet partitions."""
    configs = {}
    for name, partition, alpha in (("IID", "iid", 1.0), ("Dirichlet 0.6", "dirichlet", 0.6), ("0.3", "dirichlet", 0.3)):
        config = configs[name] = cifar_resnet.get_config("pame")
        config.name += f"_{partition}_{alpha:g}"
        config.sweep = config.sweep.split("; ", 1)[1]  # without the axis of the three partitions
        config.data.partition, config.data.alpha = partition, alpha
        if small():
            config.seeds, config.rounds, config.eval_every = 1, 4, 2
            config.network.num_clients, config.algorithm.batch_size = 4, 8
            config.data.limit_train, config.data.limit_test, config.data.validation = 400, 100, 50
            config.sweep = "algorithm.name=pame,dpsgd; algorithm.lr=0.1,0.5"
    return _images(configs)


FIGURES: Figures = {
    "2": (figure_2, "higher rates give lower objectives, little beyond 0.2; the period has little influence"),
    "3": (lambda: convergence("transmission"), "higher transmission converges faster, little beyond 0.2"),
    "4": (lambda: convergence("participation"), "0.1 to 0.2 speeds up much, more gives little"),
    "5": (lambda: convergence("period"), "shorter periods are faster, less so with more nodes"),
    "6": (lambda: convergence("period_drawn"), "drawn periods are slightly slower than common ones"),
    "7": (figure_7, "objective saturates but for the sparsest; about 200 iterations nearly everywhere"),
    "8": (figure_8, "PaME needs the fewest rounds for the highest accuracy, DFedSAM second; BEER and ANQ-NIDS slowest"),
    "9": (figure_9, "PaME needs the fewest communication rounds throughout"),
    "10": (figure_10, "PaME sends at least 50 % less than the others in most settings"),
    "11": (figure_11, "PaME is fastest for every C, and the most accurate at C = 1"),
    "12": (figure_12, "PaME is the most accurate, IID and at Dirichlet 0.3 and 0.6"),
}


if __name__ == "__main__":
    run(FIGURES)
