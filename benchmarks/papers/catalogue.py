"""Imports the modules of the papers, in which the items register themselves."""

from importlib import import_module

PAPERS = {
    "madfl": "MADFL (Jahani et al.: Mobility-Assisted Decentralized Federated Learning)",
    "dadfl": "DADFL (Reza et al.: Distribution-Aware Mobility-Assisted Decentralized Federated Learning)",
    "thesis": "The thesis (continuous random walk, speed-aware averaging)",
    "pame": "PaME (Sha et al.: Decentralized Federated Learning by Partial Message Exchange)",
    "fedmobile": "FedMobile (Accelerating Federated Learning Convergence via Opportunistic Mobile Relaying)",
    "clipped_gossip": "ClippedGossip (He et al.: Byzantine-Robust Decentralized Learning via ClippedGossip)",
    "balance": "BALANCE (Fang et al.: Byzantine-Robust Decentralized Federated Learning)",
}
"""The papers by their modules, in the order of the pages."""
RANDOM = "starts from random weights here, and in the paper from ImageNet's (`--config.model.pretrained=FILE`)."
NOTES = {
    "madfl": f"Figure 1 is a drawing of graphs, and table I lists symbols. CIFAR-10 {RANDOM}",
    "dadfl": f"Figure 1 is a drawing of a network. CIFAR-10 {RANDOM}",
    "thesis": "Figures 1 and 2 are drawings. Figures 3 to 6 are curves of the runs of tables 1 and 2; they are in the "
    "report of `configs/thesis.py:t1`.",
    "pame": "Figure 1 is a drawing, table I lists assumptions of proofs, and table II has the settings of the presets. "
    "The paper's words on its rivals (V-D), of which the rows are made: PaME \"consistently outperforms all competing "
    "algorithms in terms of convergence speed, requiring the fewest communication rounds to achieve the highest test "
    'accuracy" (figure 8); it "consistently requires the fewest CR" to convergence (9), reduces "the transmitted '
    'volume by at least 50 % compared with the other methods in most configurations" (10), and reaches "superior '
    'final accuracy" (11, 12). It names no target accuracy and four rivals, and gives all methods one period and one '
    "participation.",
    "fedmobile": "Figures 1 and 2 are drawings, and tables 1 to 4 have the settings of the presets.",
    "clipped_gossip": "One figure of this paper is repeated. The paper's accuracies are those that the authors' code "
    "keeps (`outputs/honest_majority/exp/acc.csv`), of one seed after 870 iterations.",
    "balance": "The tables of this paper were not at hand. Its abstract says that BALANCE outperforms existing methods "
    "and defends against poisoning attacks. The setting is ours.",
}
"""What a paper has besides its items, and what its items lack."""


def load() -> None:
    """Import the modules, so that `benchmarks.papers.items.ITEMS` is complete."""
    for name in (*PAPERS, "prediction", "variance", "explained", "explained_pame", "explained_nearer"):
        import_module(f"benchmarks.papers.{name}")
