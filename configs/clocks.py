"""Do clients that wait for nobody learn sooner, where some are sixteen times slower, and how do they move for it?

Command:   python -m launch.sweep --config=configs/clocks.py:STUDY
Expected:  with clocks 80 % after 350 to 450 s if clients move, in rounds not within 1,600 s (docs/time.md).

| STUDY        | what varies                                                                       | runs x rounds |
|--------------|-----------------------------------------------------------------------------------|---------------|
| asynchronous | D-PSGD whose clients join when they are done, and four algorithms without rounds    | 400 x 1,600   |
| synchronous  | D-PSGD in rounds that wait for the slowest client                                   | 80 x 100      |

Both last 1,600 simulated seconds. A work, a minibatch of 16 samples, takes 1, 4 or 16 seconds, for a third of the
clients each. A slot is one second, in which clients move as far as in a synchronous round of 16 seconds. All have four
movements.
"""

from ml_collections import ConfigDict

from configs import digits
from mdfl_jax.core.errors import UserError, unknown_name

MOVEMENTS = "network.mobility=static,random_movement,dcm,waiting"
SECONDS, SLOWEST, BATCH = 1600, 16, 16
ALGORITHMS = "algorithm.name=dpsgd,adpsgd,push_pull,osgp,swift"
STUDIES = ("asynchronous", "synchronous")


def get_config(study: str = "asynchronous") -> ConfigDict:
    if study not in STUDIES:
        raise UserError(unknown_name("study", study, STUDIES))
    config, waits = digits.get_config(), study == "synchronous"
    config.name = f"clocks_{study}"
    config.title = f"Clients with clocks learn {{data}}: {study}"
    config.sweep = MOVEMENTS if waits else f"{ALGORITHMS}; {MOVEMENTS}"
    config.baseline = "network.mobility=random_movement"
    config.seeds = 20
    config.rounds = SECONDS // SLOWEST if waits else SECONDS
    config.eval_every = config.rounds // 50
    config.x_axis = "seconds"

    config.algorithm.lr = 0.1
    config.algorithm.lr_schedule = "constant"  # rounds are not the same number of works for all
    config.algorithm.batch_size = BATCH
    config.data.alpha = 0.3
    config.cost.seconds_per_sample = 1 / BATCH
    config.cost.speed_ratio = SLOWEST**0.5
    config.clock.joins = "" if waits else "at_once"
    return config
