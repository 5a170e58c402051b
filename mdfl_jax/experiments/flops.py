"""What a round's arithmetic is worth, however it is computed: the count that shares of a device's peak stand on."""

import dataclasses

import jax

from mdfl_jax.data.dataset import Dataset
from mdfl_jax.experiments.build import build_simulation
from mdfl_jax.experiments.sections import Experiment
from mdfl_jax.flops import count_flops
from mdfl_jax.types import Hparams


def round_flops(experiment: Experiment, dataset: Dataset | None, hparams: Hparams, patterns: list[str]) -> float:
    """FLOPs of a round of one run, the same for every form, mapping, tile and number of devices.

    Each sample counts once, convolutions as the library's, and nothing as computed again; of a full batch one sample a
    client counts too many, where its last block is filled up.

    Args:
      experiment: a point.
      dataset: its data.
      hparams: its numbers.
      patterns: the mobility rules of its program.
    """
    engine = dataclasses.replace(
        experiment.engine,
        convolution="library",
        mapping="scan",
        remat=False,
        block_size=experiment.algorithm.batch_size or 1,
    )
    data = dataclasses.replace(experiment.data, crop=0, flip=False)  # made by products on accelerators
    plain = build_simulation(dataclasses.replace(experiment, engine=engine, data=data), dataset, patterns)
    key = jax.random.key(0)
    carry = jax.eval_shape(plain.init, plain.data, hparams, key)[0]
    return count_flops(jax.make_jaxpr(plain.round)(plain.data, hparams, key, carry))
