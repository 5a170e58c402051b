"""FedMobile's items find every sweep point that their claims compare, on made-up studies of the presets' own points."""

import importlib

import numpy as np
import pytest
import xarray as xr

from benchmarks.papers import catalogue
from benchmarks.papers.items import AGREES, DIFFERS, ITEMS, SIGN, UNKNOWN
from benchmarks.papers.studies import Study
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.outcomes import with_seeds

catalogue.load()
NAMES = [name for name in ITEMS if name.startswith("fedmobile:")]
SLOTS = np.arange(0, 160, 10)
GAINS = {"async_fl": 0.0, "fedmobile_u": 0.02, "fedmobile_d": 0.03, "virtual_upload": 0.1, "virtual_download": -0.2}


class MadeUp(Study):
    """A study in which a point's accuracy follows from its algorithm alone, a little different for each seed."""

    def __init__(self, preset):
        stem, _, name = preset.partition(":")
        config = importlib.import_module(f"configs.{stem}").get_config(name)
        self.ids, self.points, curves = [], [], []
        for point in points(resolve(config)):
            gain = GAINS.get(point.experiment.algorithm.name, 0.06)
            curves.append([np.minimum(SLOTS / 150, 1) * (0.75 + gain + 0.001 * seed) for seed in range(3)])
            final = with_seeds([float(curve[-1]) for curve in curves[-1]])
            statistics = {"final_accuracy": final, "mean_model_loss": final, "bits_sent_per_client": 2e6}
            self.points.append({"id": point.id, "overrides": point.overrides, **statistics})
        self.curves = xr.DataArray(np.array(curves), dims=("point", "seed", "round"), coords={"round": SLOTS})

    def results(self):
        return {"mean_model_accuracy": self.curves}


class Made:
    """In the place of `Studies`."""

    scale = "small"

    def __init__(self):
        self.used = {}

    def __call__(self, preset):
        return self.used.setdefault(preset, MadeUp(preset))


@pytest.mark.parametrize("name", NAMES)
def test_an_item_has_claims_of_its_own_presets_and_tables_of_all_points(name):
    made = Made()
    tables, claims = ITEMS[name].make(made)
    assert set(made.used) == set(ITEMS[name].presets)
    assert claims
    assert all(claim.verdict != UNKNOWN for claim in claims)
    assert len({claim.text for claim in claims}) == len(claims)
    for title, header, rows in tables:
        assert all(len(row) == len(header) for row in rows), title
        assert len({row[0] for row in rows}) >= len(rows) - 1  # figure 14 has ASYNC twice


def test_the_verdicts_follow_from_the_accuracies():
    """FedMobile above ASYNC, Virtual-U far above and Virtual-D below it; what is equal is undecided."""
    verdicts = {claim.text: claim.verdict for name in NAMES for claim in ITEMS[name].make(Made()).claims}
    assert verdicts["FedMobile over ASYNC, Fashion-MNIST, random intervals"] == AGREES
    assert verdicts["FedMobile needs fewer slots to 70 %, fixed intervals"] == SIGN
    assert verdicts["Virtual-D fails: it is behind ASYNC, fixed intervals"] == AGREES
    assert verdicts["Virtual-D over FedMobile-D"] == DIFFERS
    assert verdicts["a download 30 slots after a meeting over one after 49"] == "undecided"
    assert verdicts["several downloads by relay do not help further (7)"] == AGREES
