"""The tables of the studies of privacy (`benchmarks/private_study.py`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.quoted import markdown, results
from configs.private import EPSILONS, MOVEMENTS, TARGET

KINDS = ("mobile", "static")


def rows_of(study: str) -> dict[tuple[str, str, float], dict[str, Any]]:
    """Return the rows of a study by algorithm, movement and target."""
    found = results("private_study")["rows"]
    return {(row["algorithm"], row["movement"], row["target"]): row for row in found if row["study"] == study}


def accuracies() -> list[str]:
    """Return the accuracy at the end by movement and algorithm, for each epsilon that nobody exceeds."""
    rows = rows_of("gradients")

    def cell(algorithm: str, movement: str) -> str:
        return ", ".join(f"{np.mean(rows[algorithm, movement, target]['accuracy']):.1f}" for target in EPSILONS)

    lines = [[f"`{movement}`", cell("dpsgd", movement), cell("pame", movement)] for movement in MOVEMENTS]
    return markdown(["movement", "`dpsgd`", "`pame`"], lines)


def spending() -> list[str]:
    """Return by movement what moving and resting clients spend of the target with D-PSGD."""
    gradients, messages = rows_of("gradients"), rows_of("messages")

    def cell(row: dict[str, Any], metric: str) -> str:
        return ", ".join(f"{np.mean(row[metric][kind]):.2f}" for kind in KINDS)

    lines = [
        [
            f"`{movement}`",
            cell(gradients["dpsgd", movement, TARGET], "epsilon"),
            cell(gradients["dpsgd", movement, TARGET], "epsilon_pairs"),
            cell(messages["dpsgd", movement, TARGET], "epsilon"),
        ]
        for movement in MOVEMENTS
    ]
    header = ["moving, resting", "gradients", "towards one other", "messages"]
    return markdown(header, lines)


def larger() -> list[str]:
    """Return the accuracy on MNIST by movement, for each epsilon that nobody exceeds."""
    rows = rows_of("mnist")
    targets = sorted({target for _, _, target in rows}, key=lambda target: -target or -np.inf)
    means = {key: f"{np.mean(row['accuracy']):.1f}" for key, row in rows.items()}
    lines = [[f"`{each}`", *(means["dpsgd", each, target] for target in targets)] for each in MOVEMENTS]
    return markdown(["movement", *(f"epsilon {target:g}" if target else "no noise" for target in targets)], lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "private, accuracy": accuracies,
    "private, spending": spending,
    "private, mnist": larger,
}
