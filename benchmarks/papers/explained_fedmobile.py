"""Whether FedMobile's downloads by several relays help, by the batch and the slots: the item explained:downloads.

The paper observes in section 7 that they do not, with batches of 128 and 250 slots; `small` has batches of 8 and 150
slots in figure 5(d), and there they do.
"""

from ml_collections import ConfigDict

from benchmarks.papers.cells import cell, points
from benchmarks.papers.curves import Curves
from benchmarks.papers.items import Outcome, item
from benchmarks.papers.studies import Studies
from configs import fedmobile
from mdfl_jax.config.presets import Preset, preset_config
from mdfl_jax.core.outcomes import interval

BATCHES = (8, 128)  # of `small`, of the paper
ONE, MANY = ({"max_download": number} for number in (1, 50))
EARLY = 0.6  # of the slots: the 150 of figure 5(d) in `small`


def _downloads() -> ConfigDict:
    config = fedmobile.fashion("algorithm.max_download=1,50")
    config.algorithm.name = "fedmobile_d"
    return config


@item("explained:downloads", "Whether downloads by several relays help", "fedmobile:f5d")
def downloads(studies: Studies) -> Outcome:
    """Measure what 50 downloads by relay gain over one, by the batch, early and late in the paper's 250 slots."""
    rows, header = list[list[str]](), list[str]()
    for batch in BATCHES:
        name, cut = f"downloads_{batch}", fedmobile.SMALL | {"algorithm.batch_size": batch, "seeds": 10}
        config = preset_config("explained", {name: Preset(_downloads, cut)}, f"{name},scale={studies.scale}")
        study, middle = studies.of(config), round(EARLY * config.rounds)
        curves, spans = Curves.of(study), ((0, middle), (middle, config.rounds))
        means = [cell(interval(curves.mean(**setting)), 1, 4) for setting in (ONE, MANY)]
        gains = [points(curves.gain(MANY, ONE, *span)) for span in spans]
        rows.append([f"batches of {batch}", *means, *gains, points(study.gain(MANY, ONE))])
        header = ["", "one (%)", "up to 50 (%)", *(f"gain, slots {a + 1} to {b}" for a, b in spans), "at the end"]
    return Outcome([("FedMobile-D: mean accuracy over the slots by the number of downloads", header, rows)], [])
