"""No setting hides another one without a word: a setting that changes nothing beside another is refused or noted.

That the others change what they should is judged by tests/reference, which joins them all.
"""

import pytest
from tables import cases, with_fields
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan

HIDDEN = """
algorithm.name=pame | network.mixing=lazy => network.mixing
algorithm.local_epochs=1 | algorithm.batch_size=8 | algorithm.local_steps=2 => algorithm.local_steps
network.mobility=random_movement | motion.warm_up=5 => motion.warm_up
network.mobility=random_movement | motion.knowledge=met => motion.knowledge
network.graph=ring | graph.directed=True => graph.directed
algorithm.name=adpsgd | clock.joins=at_once | cost.seconds_per_sample=1 | network.mixing=lazy => network.mixing
energy.capacity=50 | cost.joules_per_sample=1 | energy.chargers=2,2 => energy.chargers
cost.joules_per_sample=0 | energy.capacity=50 => energy.capacity
data.collect=0 | data.window=2 => data.window
data.collect=4 | data.drift_every=2 => data.drift_every
network.relays=1 | network.mixing=fedavg => network.relays
server.pattern=fixed | network.mixing=lazy => network.mixing
cost.deadline=1 | cost.speed_spread=0.5 => cost.speed_spread
judged=global | eval_clients=4 => eval_clients
data.name=synthetic:linear | data.layout=channels_first => data.layout
"""  # settings that are refused together, or of which one has no effect => the one that a line names


@pytest.mark.parametrize(("fields", "named"), list(cases(HIDDEN)))
def test_a_setting_that_changes_nothing_beside_another_one_is_told(fields, named):
    config = with_fields(tiny_config(), {"network.mobility": "static"} | fields)
    try:
        lines = [line for line in plan(make_study(config)).splitlines() if "  note: " in line]
    except UserError as error:
        lines = [str(error)]
    assert any(named in line for line in lines), lines
