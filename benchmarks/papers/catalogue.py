"""Imports the modules of the papers, in which the items register themselves."""

from importlib import import_module

PAPERS = {
    "madfl": "MADFL (Jahani et al.: Mobility-Assisted Decentralized Federated Learning)",
    "dadfl": "DADFL (Reza et al.: Distribution-Aware Mobility-Assisted Decentralized Federated Learning)",
    "thesis": "The thesis (continuous random walk, speed-aware averaging)",
    "pame": "PaME (Sha et al.: Decentralized Federated Learning by Partial Message Exchange)",
    "fedmobile": "FedMobile (Accelerating Federated Learning Convergence via Opportunistic Mobile Relaying)",
}
"""The papers by their modules, in the order of docs/papers.md."""


def load() -> None:
    """Import the modules, so that `benchmarks.papers.items.ITEMS` is complete."""
    for name in (*PAPERS, "prediction", "variance"):
        import_module(f"benchmarks.papers.{name}")
