"""Fast and slow clients on CIFAR-10: tables 1 to 8 of the thesis. The study needs cifar10.npz (docs/data.md).

Command:   python -m launch.sweep --config=configs/thesis_cifar.py:ARGUMENT --config.data.dir=DIR

| argument    | tables of the thesis | study                                                              | runs |
|-------------|----------------------|--------------------------------------------------------------------|------|
| p_non_iid   | 1, 2                 | share p of fast clients, plain averaging and automatic ratio       | 42   |
| a_non_iid   | 3, 4, 7              | the ratio a of speed-aware averaging for each p                    | 126  |
| p_iid       | 5, 6                 | p_non_iid with IID data                                            | 42   |
| a_iid       | 8                    | a_non_iid with IID data                                            | 126  |

The number of fast clients is p N, rounded half up: of 48 clients 2, 10, 19, 29, 38 for p = 5, 20, 40, 60, 80 %. In
1,000 rounds, with three local steps on minibatches of 8, GN-LeNet sees 1.15 million images in a run. The study is meant
for an accelerator.

Expected:  (the thesis, in percentage points) With label shards, accuracy above that of p = 0: 5 % +2.73, 20 % +4.64,
           40 % +6.51, 60 % +6.71, 80 % +8.56, 100 % +8.97. Mean lead of the fast clients: +4.81, +4.13, +2.53, +2.04,
           +0.90 at p = 5 to 80 %. Accuracy with a = 1 minus that of plain averaging: -2.28, -4.20, -5.11, -4.51,
           -2.03, -1.20, -0.56 at p = 0 to 100 %. With IID data the accuracy is +0.07 to +2.11 above p = 0, and the
           leads are +1.57 to +0.60. Not measured here yet; docs/thesis.md has the same study on digits.
"""

from ml_collections import ConfigDict

from configs.thesis_digits import sweep_of, world


def get_config(argument: str = "p_non_iid") -> ConfigDict:
    config = world()
    config.name = f"thesis_cifar_{argument}"
    config.title = "Fast and slow clients learn CIFAR-10"
    config.seeds, config.rounds, config.eval_every = 3, 1000, 50  # 10,000 test images cost more than 50 rounds
    config.target = 0.4
    config.data.name = "cifar10"
    config.model.name = "gn_lenet"
    config.model.widths = (32, 32, 64)
    config.model.kernel = 5
    sweep_of(config, argument)
    return config
