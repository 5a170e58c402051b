"""Networks beside the slow simulator of tests/reference; `python -m tests.reference` draws many more.

Each case joins choices of many slots, so that a fault in one of them has a test that is the same in each run.
"""

import pytest
from small import told

from mdfl_jax.config import default_config
from mdfl_jax.study import make_study
from tests.reference.configurations import fixed
from tests.reference.judge import judge
from tests.reference.refusals import reasons

CASES = {
    "shadows_in_turns": {"world": "random_waypoint", "radio": "shadowing", "channel": "turns", "contact": "swept",
                         "short contact": "resume", "links": "lists", "cost": "counted", "cost.bandwidth": float("inf"),
                         "radio.rate": "shannon", "radio.width": 200.0, "network.radius": 400.0,
                         "radio.shadowing_distance": 200.0},
    "interference": {"world": "random_waypoint", "channel": "interference", "failure": "link fading",
                     "radii": "radius spread", "network.radius": 400.0, "cost": "counted"},
    "bursts": {"world": "complete", "channel": "bursts", "problem": "softmax", "radio.burst_end": 0.8},
    "speed_aware": {"world": "random_walk", "contact": "swept", "mixing": "speed_aware_auto", "radii": "radius spread",
                    "failure": "link failure", "short contact": "next_contact", "order": "move first"},
    "lazy": {"world": "random_movement", "mixing": "lazy", "failure": "link fading", "contact": "swept",
             "clock": "in contact"},
    "deadline": {"world": "random_movement", "deadline": "deadline", "mixing": "fedavg", "problem": "skewed"},
    "batteries": {"world": "random_movement", "energy": "chargers", "work": "steps", "cost.joules_per_metre": 0.1},
    "lists_of_a_directed_graph": {"world": "exponential", "links": "lists", "mixing": "uniform",
                                  "failure": "link failure"},
    "messages_go_on": {"world": "random_movement", "links": "lists", "short contact": "resume", "contact": "swept",
                       "cost.bandwidth": 100.0},
    "contacts_again": {"world": "contacts", "links": "lists", "trace.at_end": "repeat", "rounds": 16},
    "picks": {"algorithm": "nids", "world": "random_movement", "picks": "participation", "cost": "counted"},
    "picks_that_stay": {"algorithm": "d2", "world": "random_regular", "picks": "participation"},
    "collecting": {"samples": "drift", "world": "random_movement", "presence": "markov"},
    "newcomers": {"world": "complete", "presence": "markov", "newcomers": "neighbour", "absent": "train"},
    "comers": {"world": "trace with gaps", "presence": "of the trace", "newcomers": "initial", "contact": "swept",
               "optimizer": "momentum"},
    "asynchronous": {"algorithm": "adpsgd", "clock": "at once", "presence": "table"},
    "whole_gradients": {"algorithm": "dmgt_svrg", "cost": "received bits", "batch": "minibatch"},
    "waits": {"algorithm": "d2", "world": "ring", "picks": "period", "cost": "counted"},
    "road_side_units": {"server": "roadside", "algorithm": "fedmobile", "world": "random_waypoint",
                        "server.known_next": False},
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
def test_a_network_is_what_the_slow_simulator_says(case):
    verdicts = judge(fixed({"seeds": 2, **CASES[case]}, rounds=8))
    assert {verdict for _, verdict in verdicts} == {"equal"}


REFUSED = [
    {"algorithm": "nids", "picks": "one way"},
    {"algorithm": "nids", "world": "exponential"},
    {"algorithm": "nids", "failure": "link failure"},
    {"algorithm": "nids", "mixing": "fedavg"},
    {"algorithm": "d2", "world": "random_movement"},
    {"algorithm": "d2", "world": "ring", "presence": "markov"},
    {"algorithm": "d2", "world": "ring", "energy": "battery"},
    {"algorithm": "d2", "world": "ring", "channel": "bursts"},
]


def test_an_algorithm_is_refused_on_a_network_that_does_not_promise_what_it_needs():
    for case in REFUSED:
        assert reasons(fixed(case))
        config = default_config()
        config.update_from_flattened_dict(fixed(case))
        assert case["algorithm"] in told(make_study, config), case
