"""What does differential privacy cost clients that move, and which of them spend most?

Command:   mdfl sweep private:STUDY
Expected:  at epsilon 8 accuracies of 54 % (static) to 81 % (waiting), at epsilon 1 24 to 32 % (docs/privacy.md); mnist
           at epsilon 8 59 to 80 %, at epsilon 1 52 to 76 %.
Measured:  gradients 4 minutes of two CPU cores, messages half a minute, mnist half an hour with other work beside.

| STUDY     | what varies                                                                         | runs x rounds |
|-----------|-------------------------------------------------------------------------------------|---------------|
| gradients | DP-SGD: the epsilon that nobody exceeds, four movements, D-PSGD and PaME; and alone   | 900 x 100     |
| messages  | noise on messages, which protects all samples of a client: four movements            | 80 x 100      |
| mnist     | `gradients` on MNIST: D-PSGD, minibatches                                            | 320 x 100     |

All clip at 1. Epsilon 0 stands for no noise. Clients compute one step a round, on all samples but in `mnist`. The
learning rate was chosen with other seeds among 0.1, 0.3, 1 and 3. PaME sends a fifth of the coordinates to everybody in
contact, with a constant step.
"""

from ml_collections import ConfigDict

from configs import digits
from mdfl_jax.core.errors import UserError, unknown_name

STUDIES = ("gradients", "messages", "mnist")
MOVEMENTS = ("static", "random_movement", "dcm", "waiting")
EPSILONS = (0, 8, 4, 2, 1)
TARGET = 8
EPSILON = "privacy.target_epsilon=" + ",".join(map(str, EPSILONS))
MOVEMENT = "network.mobility=" + ",".join(MOVEMENTS)
LEARNERS = ",".join(f"{name}+{movement}" for name in ("dpsgd", "pame") for movement in MOVEMENTS)
SWEEPS = {
    "gradients": f"algorithm.name+network.mobility={LEARNERS},local_only+static; {EPSILON}",
    "messages": MOVEMENT,
    "mnist": f"{MOVEMENT}; privacy.target_epsilon=0,8,4,1",
}


def get_config(study: str = "gradients") -> ConfigDict:
    if study not in STUDIES:
        raise UserError(unknown_name("study", study, STUDIES))
    config = digits.get_config()
    config.name = f"private_{study}"
    config.title = f"Moving clients learn {{data}} with differential privacy: {study}"
    config.sweep, config.baseline = SWEEPS[study], ""
    config.seeds = 20
    config.rounds, config.eval_every = 100, 20
    config.data.alpha = 0.3
    config.model.name = "linear"
    config.algorithm.lr, config.algorithm.lr_schedule = 0.3, "constant"
    config.algorithm.participation = 1.0
    config.algorithm.period_min = config.algorithm.period_max = 1
    config.algorithm.penalty_growth = 1.0
    config.privacy.clip = 1.0
    config.privacy.public = "moments,labels"
    config.engine.record_positions = False
    if study == "gradients":
        config.privacy.pairs = True
    if study == "messages":
        config.privacy.on, config.privacy.target_epsilon = "messages", TARGET
    if study == "mnist":
        config.data.name = "mnist"
        config.algorithm.batch_size, config.privacy.least_samples = 64, 640
    return config
