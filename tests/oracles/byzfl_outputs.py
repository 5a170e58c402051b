"""What byzfl 0.0.11 computes, which brings PyTorch, for tests/exchange/test_rules.py.

Where it is installed, `python tests/oracles/byzfl_outputs.py` writes byzfl_outputs.npz.
"""

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
N, D, F, TAU = 11, 7, 1, 1.5  # models, parameters, attackers, radius


def made() -> dict[str, np.ndarray]:
    import byzfl

    rng = np.random.default_rng(6)
    models = rng.normal(size=(N, D)).astype(np.float32).astype(float)
    models[4] *= 20
    honest = np.delete(models, 4, axis=0)
    mixed = byzfl.NNM(F)(models)

    def clipped(own: np.ndarray) -> np.ndarray:
        rule = byzfl.CenteredClipping(L=1, tau=TAU)
        rule.m = own  # its argument of this name takes no array
        return rule(models)

    return {
        "models": models,
        "median": byzfl.Median()(models),
        "trimmed_mean_of_all": byzfl.TrMean(F)(models),
        "nnm_median": byzfl.Median()(mixed),
        "geometric_median": byzfl.GeometricMedian(nu=1e-6, T=300)(models),
        "clipped_gossip": np.stack([clipped(own) for own in models]),
        "inner_product": byzfl.InnerProductManipulation(tau=0.4)(honest),
        "a_little_is_enough": byzfl.ALittleIsEnough(tau=-1.5)(honest),
    }


if __name__ == "__main__":
    np.savez(FILE, **made())
