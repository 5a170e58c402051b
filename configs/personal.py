"""Personal models among moving clients: a personal head, a personal model, or one model that each client fine-tunes.

Command:   mdfl sweep personal
           mdfl sweep personal:smoke
Expected:  with DCM, personal accuracies of 96 % alone, 97 % with a personal head, 98 % fine-tuned or with Ditto.
Measured:  2 minutes of CPU time with compiling.

Each client's model is judged on test samples with the client's own distribution of labels (docs/personal.md).
"""

from ml_collections import ConfigDict

from configs import digits

WHOLE, BODY = "*", "Dense_0/*"
METHODS = (
    ("local_only", WHOLE, 0),
    ("dpsgd", WHOLE, 0),
    ("dpsgd", WHOLE, 10),
    ("dpsgd", BODY, 0),
    ("dfedalt", BODY, 0),
    ("ditto", WHOLE, 0),
    ("apfl", WHOLE, 0),
)
"""Algorithms, the leaves that they exchange, and the steps of each client before an evaluation."""


def get_config(scale: str = "") -> ConfigDict:
    config = digits.get_config()
    config.name = "personal"
    config.title = "Personal models among moving clients"
    methods = ",".join("+".join(map(str, method)) for method in METHODS)
    config.sweep = f"algorithm.name+model.shared+personal.evaluate_after={methods}; "
    config.sweep += "network.mobility=static,random_movement,dcm"
    config.baseline = "network.mobility=static"
    config.metrics = "personal_accuracy"
    config.seeds = 10
    config.rounds = 300
    config.eval_every = 50
    config.data.alpha = 0.1
    config.model.name = "mlp"
    config.model.widths = (32,)
    config.model.hidden = None
    config.personal.evaluate_lr = 0.1
    if scale == "smoke":
        config.name = "personal_smoke"
        config.seeds, config.rounds, config.eval_every = 2, 20, 10
    return config
