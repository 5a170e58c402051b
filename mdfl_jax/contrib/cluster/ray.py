"""Ray."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from mdfl_jax.contrib.cluster.crew import Order, State, register_place, shares
from mdfl_jax.contrib.cluster.workers import function_of, in_a_line, package, settings_of
from mdfl_jax.core import devices
from mdfl_jax.core.errors import UserError

_PASSED_ON = ("JAX_", "XLA_", "MDFL_", "WANDB_", "PYTHONPATH")  # variables that Ray's other machines do not know


@register_place("ray")
class Ray:
    """Tasks of Ray: on the cluster that the setting address or RAY_ADDRESS names, else on one that is started here.

    Args:
      many: The number of workers.
      settings: The address, and the options of the tasks by name.
      workdir: The folder of the study, which all machines of the cluster see.
    """

    def __init__(self, many: int, settings: Mapping[str, str], workdir: Path):
        self.ray, self.options = package("ray", "ray"), {"max_retries": 0, **settings_of(settings, 1)}
        self.address = self.options.pop("address", None) or os.environ.get("RAY_ADDRESS")
        where = f"at {self.address}" if self.address else "on this machine"
        self.words = f"{many} task{'s' * (many > 1)} of Ray {where}"
        self.variables = [{k: v for k, v in os.environ.items() if k.startswith(_PASSED_ON)} for _ in range(many)]
        if not self.address:
            self.variables = [before | more for before, more in zip(self.variables, shares(many)[0])]
            cores = devices.num_cores() / many
            self.options.setdefault("num_cpus", int(cores) or cores)
            self.options.setdefault("num_gpus", len(devices.cards()) / many)
        elif "num_cpus" in self.options:
            cores = max(int(self.options["num_cpus"]), 1)
            self.variables = [before | {"JAX_NUM_CPU_DEVICES": str(cores)} for before in self.variables]

    def __enter__(self) -> Self:
        alone = {} if self.address else {"include_dashboard": False}
        try:
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # JAX's, of os.fork
                self.ray.init(address=self.address or "local", log_to_driver=False, logging_level="ERROR", **alone)
            self.ray.remote(**self.options)(lambda: None)  # checks the options
        except Exception as error:
            self.__exit__()
            raise UserError(f"--on=ray, --cluster: {in_a_line(error)}") from error
        return self

    def __exit__(self, *error: object) -> None:
        self.ray.shutdown()

    def start(self, number: int, order: Order) -> Any:
        """Submit a task."""
        order.variables.update(self.variables[number])
        return self.ray.remote(**self.options)(function_of(order)).remote()

    def poll(self, job: Any) -> State:
        """Return how a task is."""
        if not self.ray.wait([job], timeout=0)[0]:
            return State(None)
        try:
            return State(*self.ray.get(job))
        except self.ray.exceptions.RayError as error:
            return State(-1, in_a_line(error))

    def cancel(self, job: Any) -> None:
        """Cancel a task: Ray raises a KeyboardInterrupt in it."""
        self.ray.cancel(job)
