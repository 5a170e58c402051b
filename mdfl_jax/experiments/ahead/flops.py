"""What a round's arithmetic is worth, however it is computed: the count that shares of a device's peak stand on."""

import dataclasses

import jax

from mdfl_jax.experiments.build.simulation import build_simulation
from mdfl_jax.experiments.run.study import Group, Study
from mdfl_jax.flops import count_flops


def round_flops(study: Study, group: Group) -> float:
    """FLOPs of a round of one run, the same for every form, mapping, tile and number of devices.

    Each sample counts once, convolutions as the library's, and nothing as computed again; of a full batch one sample a
    client counts too many, where its last block is filled up.

    The simulation is built once more for it, its data put on the device: for a dry run, not for a study.
    """
    experiment, hparams = study.points[group.points[0]].experiment, group.hparams[0]
    engine = dataclasses.replace(
        experiment.engine,
        convolution="library",
        mapping="scan",
        remat=False,
        block_size=experiment.algorithm.batch_size or 1,
    )
    data = dataclasses.replace(experiment.data, crop=0, flip=False)  # made by products on accelerators
    plain = build_simulation(dataclasses.replace(experiment, engine=engine, data=data), group.dataset, group.rules)
    key = jax.random.key(0)
    carry = jax.eval_shape(plain.init, plain.data, hparams, key)[0]
    return count_flops(jax.make_jaxpr(plain.round)(plain.data, hparams, key, carry))
