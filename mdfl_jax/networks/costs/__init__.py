"""The costs of a round: simulated seconds and joules, contacts that are too short, clients that are too slow.

`counted` wraps any network, so that a run counts seconds and joules. `link_filter` makes a rule that removes contacts
from a network. `Work` and `probe` find out what an algorithm computes and sends in a round. docs/costs.md has the
formulas.
"""

from mdfl_jax.networks.costs.account import counted
from mdfl_jax.networks.costs.filters import SHORT_CONTACTS, link_filter
from mdfl_jax.networks.costs.numbers import CostParams, client_speeds
from mdfl_jax.networks.costs.work import LinkLoad, Work, gradient_calls, probe

__all__ = [
    "SHORT_CONTACTS",
    "CostParams",
    "LinkLoad",
    "Work",
    "client_speeds",
    "counted",
    "gradient_calls",
    "link_filter",
    "probe",
]
