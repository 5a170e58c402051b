"""Partitions: they divide the training samples among the clients.

Each partition is one file. Its function takes a key and the labels, and returns ``owner`` [n] int32, the client that
owns each sample (-1: no client). All can be compiled by jit with static counts; numbers such as alpha may be traced.
`PARTITIONS` holds all of them under one signature. Importing the package registers them.
"""

from mdfl_jax.data.partition.by_owner import OwnerNumbers, by_owner
from mdfl_jax.data.partition.by_place import PlaceNumbers, by_place
from mdfl_jax.data.partition.classes_per_client import ClassesNumbers, classes_per_client
from mdfl_jax.data.partition.dirichlet import DirichletNumbers, dirichlet
from mdfl_jax.data.partition.dirichlet_balanced import dirichlet_balanced
from mdfl_jax.data.partition.dirichlet_per_client import PerClientNumbers, dirichlet_per_client
from mdfl_jax.data.partition.iid import iid
from mdfl_jax.data.partition.power_law import PowerLawNumbers, power_law
from mdfl_jax.data.partition.quantity_skew import QuantityNumbers, quantity_skew
from mdfl_jax.data.partition.registry import PARTITIONS, PartitionNumbers, PartitionSettings
from mdfl_jax.data.partition.shards import ShardsNumbers, shards
from mdfl_jax.data.partition.table import TableNumbers, by_table

__all__ = [
    "PARTITIONS",
    "ClassesNumbers",
    "DirichletNumbers",
    "OwnerNumbers",
    "PartitionNumbers",
    "PartitionSettings",
    "PerClientNumbers",
    "PlaceNumbers",
    "PowerLawNumbers",
    "QuantityNumbers",
    "ShardsNumbers",
    "TableNumbers",
    "by_owner",
    "by_place",
    "by_table",
    "classes_per_client",
    "dirichlet",
    "dirichlet_balanced",
    "dirichlet_per_client",
    "iid",
    "power_law",
    "quantity_skew",
    "shards",
]
