"""The algorithms: what clients compute and send in a round. Each one is a factory that takes `Settings`."""

from mdfl_jax.algorithms.allreduce import allreduce
from mdfl_jax.algorithms.anq_nids import anq_nids
from mdfl_jax.algorithms.beer import beer
from mdfl_jax.algorithms.choco import choco
from mdfl_jax.algorithms.d2 import d2
from mdfl_jax.algorithms.dcd_psgd import dcd_psgd
from mdfl_jax.algorithms.dfedavgm import dfedavgm
from mdfl_jax.algorithms.dfedsam import dfedsam
from mdfl_jax.algorithms.dpsgd import dpsgd, local_only
from mdfl_jax.algorithms.dsgdm_n import dsgdm_n
from mdfl_jax.algorithms.epidemic import epidemic, epidemic_oracle
from mdfl_jax.algorithms.extra import extra
from mdfl_jax.algorithms.fedmobile import (
    async_fl,
    fedmobile,
    fedmobile_auto,
    fedmobile_d,
    fedmobile_local,
    fedmobile_u,
    server_fedavg,
    virtual_download,
    virtual_download_once,
    virtual_upload,
)
from mdfl_jax.algorithms.gradient_tracking import gradient_tracking
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.nids import nids
from mdfl_jax.algorithms.pame import pame
from mdfl_jax.algorithms.qg_dsgdm import qg_dsgdm, qg_dsgdm_n
from mdfl_jax.algorithms.registry import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.sgp import sgp
from mdfl_jax.algorithms.squarm_sgd import squarm_sgd

__all__ = [
    "ALGORITHMS",
    "LocalNumbers",
    "Settings",
    "allreduce",
    "anq_nids",
    "async_fl",
    "beer",
    "choco",
    "d2",
    "dcd_psgd",
    "dfedavgm",
    "dfedsam",
    "dpsgd",
    "dsgdm_n",
    "epidemic",
    "epidemic_oracle",
    "extra",
    "fedmobile",
    "fedmobile_auto",
    "fedmobile_d",
    "fedmobile_local",
    "fedmobile_u",
    "gradient_tracking",
    "local_only",
    "nids",
    "numbers_of",
    "pame",
    "qg_dsgdm",
    "qg_dsgdm_n",
    "server_fedavg",
    "sgp",
    "squarm_sgd",
    "virtual_download",
    "virtual_download_once",
    "virtual_upload",
]
