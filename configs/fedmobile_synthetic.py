"""FedMobile on least squares: the argument chooses a part of the paper's figure 3, or the gaps of figure 14.

Command:   python -m launch.sweep --config=configs/fedmobile_synthetic.py:ARGUMENT

| argument   | figure     | study                                                                              |
|------------|------------|------------------------------------------------------------------------------------|
| variants   | 3a, 3g, 3h | ASYNC, FedMobile-U, -D, FedMobile, Virtual-U, Virtual-D, and the automatic search    |
| upload     | 3b         | upload search intervals                                                            |
| download   | 3c         | download search intervals                                                          |
| rho        | 3d         | rho, the share of the clients that are paired in a slot                            |
| uploads    | 3e         | K, the largest number of uploads by relay between two meetings                     |
| downloads  | 3f         | the largest number of downloads by relay between two meetings                      |
| exponential         | 14 | exponential gaps of mean 30, at most 80; the next meeting is known                 |
| exponential_unknown | 14 | as exponential; clients only expect the next meeting                               |

The numbers are those of the paper's table 1. The paper does not give the true coefficients, the noise or rho. We use a
dense truth in +-[0.5, 2], noise 0.5 and rho = 0.5. The loss is that of the global model on test samples
(`mean_model_loss`).

Expected:  docs/fedmobile.md.
"""

from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

VARIANTS = "async_fl,fedmobile_u,fedmobile_d,fedmobile,fedmobile_auto,virtual_upload,virtual_download"
STUDIES = {
    "variants": f"algorithm.name={VARIANTS}",
    "upload": "algorithm.upload_from+algorithm.upload_until=0+10,5+25,10+40,20+45,35+49",
    "download": "algorithm.download_from+algorithm.download_until=0+5,0+10,5+25,20+40,35+49",
    "rho": "server.pairs=0,0.1,0.3,0.5,0.7,1",
    "uploads": "algorithm.max_upload=0,1,2,5,50",
    "downloads": "algorithm.max_download=0,1,2,5,50",
    "exponential": "algorithm.name=async_fl,fedmobile,fedmobile_auto",
    "exponential_unknown": "algorithm.name=async_fl,fedmobile,fedmobile_auto",
}
ONE_WAY = {"upload": "fedmobile_u", "uploads": "fedmobile_u", "download": "fedmobile_d", "downloads": "fedmobile_d"}


def get_config(argument: str = "variants") -> ConfigDict:
    if argument not in STUDIES:
        raise ValueError(f"argument {argument!r}; known: {', '.join(STUDIES)}")
    config = default_config()
    config.name = f"fedmobile_synthetic_{argument}"
    config.title = "FedMobile on least squares"
    config.sweep = STUDIES[argument]
    if "async_fl" in config.sweep:
        config.baseline = "algorithm.name=async_fl"
    config.seeds = 30
    config.rounds = 150
    config.eval_every = 10
    config.judged = "global"
    config.target = 0.9

    config.data.name = "synthetic:linear"
    config.data.dimension = 200
    config.data.samples_per_client = 40
    config.data.truth_share = 1.0
    config.network.num_clients = 50
    config.network.num_mobile = 0
    config.server.pattern = "fixed"
    config.server.pairs = 0.5
    if argument.startswith("exponential"):
        config.server.pattern = "exponential"
        config.server.known_next = argument == "exponential"

    config.algorithm.name = ONE_WAY.get(argument, "fedmobile")
    config.algorithm.lr = 0.01
    config.algorithm.lr_schedule = "exponential"
    config.algorithm.lr_decay = 0.99
    config.algorithm.lr_final = 0.01
    config.algorithm.batch_size = 128
    config.algorithm.upload_from, config.algorithm.upload_until = 10, 40
    config.algorithm.download_from, config.algorithm.download_until = 5, 25
    config.engine.runs_per_batch = 30
    return config
