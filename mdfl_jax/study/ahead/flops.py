"""Counts the FLOPs of a round alike for every form of it, as the basis for shares of a device's peak."""

import dataclasses

import jax

from mdfl_jax.core.flops import count_flops
from mdfl_jax.study.prepare.simulation import build_simulation
from mdfl_jax.study.study import Group, Study


def round_flops(study: Study, group: Group) -> float:
    """Return the FLOPs of a round of one run, which are the same for every form, mapping, tile and number of devices.

    Each sample counts once, convolutions count as those of the library, and nothing counts as computed again. With a
    full batch, one sample too many counts for each client, where its last block is filled up.

    This builds the simulation once more and puts its data on the device, which is meant for a dry run, not for a study.
    """
    experiment, hparams = study.points[group.points[0]].experiment, group.hparams[0]
    engine = dataclasses.replace(
        experiment.engine,
        convolution="library",
        mapping="scan",
        remat=False,
        block_size=experiment.algorithm.batch_size or 1,
    )
    data = dataclasses.replace(experiment.data, crop=0, flip=False)  # on accelerators, matrix products compute these
    plain = build_simulation(dataclasses.replace(experiment, engine=engine, data=data), group.dataset, group.rules)
    key = jax.random.key(0)
    carry = jax.eval_shape(plain.first, plain.data, hparams, key)
    return count_flops(jax.make_jaxpr(plain.round)(plain.data, hparams, key, carry))
