"""Each algorithm, rule, compressor and attack beside the slow simulator of tests/reference, where it does something.

`python -m tests.reference` draws many more configurations; these are the same in each run, so that a fault has a test.
"""

import random

import pytest

from tests.reference.configurations import (
    ALGORITHMS,
    ATTACKS,
    COMPRESSORS,
    RELAYS,
    RULES,
    SERVER,
    SLOTS,
    completed,
    fixed,
)
from tests.reference.judge import judge
from tests.reference.refusals import reasons

MORE = (("work", "steps"), ("optimizer", "momentum"), ("decay", "weight decay"), ("schedule", "exponential"),
        ("cost", "counted"))  # fmt: skip
WORLDS = {"sgp": {"failure": "link failure"}, "osgp": {"clock": "at once"}, "swift": {"clock": "at once"}}
WORLDS |= {name: {"clock": "at once", "world": "complete", "rounds": 16} for name in ("adpsgd", "push", "push_pull")}
WORLDS |= {name: {"server": "random", "world": "random_movement"} for name in SERVER}
for name in RELAYS:  # enough time between meetings to hand over more than once
    WORLDS[name] |= {"network.num_clients": 12, "rounds": 40, "server.gap_min": 3, "server.gap_max": 8}
    WORLDS[name] |= {"algorithm.upload_until": 4, "algorithm.download_until": 4, "algorithm.max_download": 2}
CASES = {name: {"algorithm": name, **WORLDS.get(name, {})} for name in ALGORITHMS}
CASES |= {f"rule_{name}": {"aggregation": name, "attack": "gaussian"} for name in RULES}
CASES |= {f"choco_{name}": {"algorithm": "choco", "compressor": name} for name in COMPRESSORS}
CASES |= {f"{name}_sign": {**CASES[name], "compressor": "sign"} for name in RELAYS if name != "fedmobile_d"}
CASES |= {
    "attacks": {"problem": "softmax", "attack": "sign_flip"},
    "attacks_and_server": {**WORLDS["fedmobile"], "algorithm": "fedmobile", "attack": "sign_flip", "attack.memory": 3},
    "epochs": {"work": "epochs", "problem": "skewed"},
    "proximal": {"proximal": "proximal"},
    "equal_epochs": {"work": "equal epochs", "problem": "skewed", "algorithm": "kgt"},
    "minibatches": {"batch": "minibatch", "algorithm": "dmgt_svrg"},
    "one_way": {"picks": "one way"},
    "some_are_silent": {"algorithm": "squarm_sgd", "algorithm.trigger": 200.0},
    "largest": {"short contact": "largest", "cost.bandwidth": 150.0},
    "presence": {"presence": "markov"},
    "personal_epochs": {"algorithm": "dfedalt", "work": "epochs", "batch": "minibatch"},
    "fine_tuning": {"personal": "evaluate after", "problem": "skewed", "batch": "minibatch", "gradient": "sum"},
    "judges_of_epochs": {"aggregation": "reputation", "work": "epochs", "problem": "softmax"},
    "judges_that_still_compute": {
        **WORLDS["push"],
        "algorithm": "push",
        "aggregation": "reputation",
        "problem": "softmax",
    },
}


def changes_of(case):
    """The changes for a case, with what it is not refused together with."""
    own = {path: value for path, value in CASES[case].items() if path not in SLOTS}
    choices = completed(random.Random(0), {slot: CASES[case][slot] for slot in SLOTS if slot in CASES[case]})
    choices = {} if choices == {"algorithm": "dpsgd"} else choices
    for slot, choice in MORE:
        more = {**choices, slot: choice}
        if slot not in choices and not ("proximal" in choices and slot == "work"):
            choices = choices if reasons(fixed(more)) else more
    sweep = {"attacks": ATTACKS, "attacks_and_server": ("sign_flip", "scaled", "zero")}.get(case)
    own |= {"sweep": f"attack.name={','.join(sweep)}", "seeds": 1} if sweep else {"seeds": 2}
    if choices.get("work") == "steps" or "proximal" in choices:
        own["algorithm.local_steps"] = 3  # the least in which a step sees two before it
    return fixed(choices | own)


@pytest.mark.few(1)
@pytest.mark.parametrize("case", CASES)
def test_a_member_is_what_the_slow_simulator_says(case):
    verdicts = judge(changes_of(case))
    assert verdicts
    assert {verdict for _, verdict in verdicts} == {"equal"}
