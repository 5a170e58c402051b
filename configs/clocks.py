"""Do clients that wait for nobody learn sooner, where some are sixteen times slower, and how do they move for it?

Command:   mdfl sweep clocks:STUDY
Expected:  with clocks 80 % after 350 to 450 s if clients move, in rounds not within 1,600 s; over a slow channel
           a linear model after 180 to 320 s, a CNN after 450 to 550 s or, if it is dropped, never (docs/time.md).

| STUDY        | what varies                                                                       | runs x rounds |
|--------------|-----------------------------------------------------------------------------------|---------------|
| asynchronous | D-PSGD whose clients join when they are done, and four algorithms without rounds    | 400 x 1,600   |
| synchronous  | D-PSGD in rounds that wait for the slowest client                                   | 80 x 100      |
| paced        | the same rounds, in which clients move 16 times, as far as those with clocks do     | 80 x 1,600    |
| radio        | clocks, and a channel that is slow: a small and a large model, and short contacts   | 120 x 1,600   |
| radio_pame   | the same channel: PaME that sends a fifth of the coordinates, or all                | 60 x 1,600    |

All last 1,600 simulated seconds. A work, a minibatch of 16 samples, takes 1, 4 or 16 seconds, for a third of the
clients each. A slot is one second, in which clients move as far as in a synchronous round of 16 seconds; `paced` has
slots too, and works of 16 seconds for all, so that all join in every 16th slot. The first three have four movements.

The last two have random movement and the contacts of its paths. A link carries 65,600 bits a second: a linear model
takes a third of a second, and the CNN two slots. PaME draws its coordinates anew each time. It has a constant step too:
its penalty does not grow.
"""

from ml_collections import ConfigDict

from configs import digits
from mdfl_jax.core.errors import UserError, unknown_name

MOVEMENTS = "network.mobility=static,random_movement,dcm,waiting"
SECONDS, SLOWEST, BATCH = 1600, 16, 16
ALGORITHMS = "algorithm.name=dpsgd,adpsgd,push_pull,osgp,swift"
STUDIES = ("asynchronous", "synchronous", "paced", "radio", "radio_pame")
BANDWIDTH = 65_600
SWEEPS = {
    "asynchronous": f"{ALGORITHMS}; {MOVEMENTS}",
    "radio": "model.name=linear,cnn; cost.short_contact=drop,next_contact,largest",
    "radio_pame": "model.name+algorithm.transmission=linear+0.2,linear+1,cnn+0.2",
}


def get_config(study: str = "asynchronous") -> ConfigDict:
    if study not in STUDIES:
        raise UserError(unknown_name("study", study, STUDIES))
    config, waits = digits.get_config(), study == "synchronous"
    config.name = f"clocks_{study}"
    config.title = f"Clients with clocks learn {{data}}: {study}"
    config.sweep = SWEEPS.get(study, MOVEMENTS)
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
    if study == "paced":
        config.cost.seconds_per_sample, config.cost.speed_ratio = SLOWEST / BATCH, 1.0
    if study.startswith("radio"):
        config.baseline = "cost.short_contact=drop"
        config.network.mobility, config.network.contact = "random_movement", "swept"
        config.cost.bandwidth = BANDWIDTH
        config.model.widths, config.model.hidden = (12, 12), 48
        config.algorithm.participation, config.algorithm.period_min, config.algorithm.period_max = 1.0, 1, 1
    if study == "radio_pame":
        config.algorithm.name, config.algorithm.penalty_growth = "pame", 1.0
        config.baseline = "algorithm.transmission=1"
    return config
