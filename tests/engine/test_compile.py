"""What the programs of a study depend on."""

import pytest

from mdfl_jax.engine.programs import Placement, traced_steps
from mdfl_jax.study import make_study


@pytest.mark.long
def test_programs_depend_neither_on_traced_numbers_nor_on_the_number_of_runs(tiny):
    """So a study of as many runs as devices, or more, grows to the bit."""

    def texts(seeds, **changes):
        (group,) = make_study(tiny(seeds=seeds, sweep="", **{"engine.client_devices": 1}, **changes)).groups
        placement = Placement(group.simulation, seeds)
        turn = placement.inputs(group.hparams * seeds, range(seeds))[0]
        return [(step.name, step.lower().as_text()) for step in traced_steps(placement, turn, turn)]

    other = {"algorithm.lr": 0.3, "network.radius": 1.5, "network.num_mobile": 1, "first_seed": 5}
    found = texts(16)  # two on each of the eight devices
    assert {name for name, _ in found} == {"draw", "world", "begin", "rounds", "evaluate"}
    assert found == texts(24, **other) == texts(8, **other)
