"""The section `personal`: local steps of each client from its model before the model is evaluated."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.contrib.personal.dfedalt import PERSONAL, DFedAltNumbers
from mdfl_jax.core.numbers import from_values
from mdfl_jax.core.section import Rule, Section, field, section
from mdfl_jax.core.sharding import take_steps
from mdfl_jax.core.trees import each
from mdfl_jax.core.types import ClientParams, Task


def fine_tuned(task: Task, num_steps: int, lr: float) -> Task:
    """Make a task that evaluates each client's model after steps x <- x - eta grad f(x) on the client's own samples.

    The clients go on from the models without these steps. The judged model of all clients is not changed. Minibatches
    are those of `Task.gradient`, the same at every evaluation of a run. Batch statistics take steps of size one.

    Args:
      task: any task.
      num_steps: E, at least 1.
      lr: eta.
    """

    def adapt(data: Any, clients: Any, client_params: ClientParams, key: jax.Array) -> ClientParams:
        own = jax.random.fold_in(key, PERSONAL)

        def step(models: ClientParams, k: jax.Array) -> tuple[ClientParams, tuple[()]]:
            _, found = task.gradient(data, clients, models, jax.random.fold_in(own, k))
            return each(lambda x, g: x - lr * g, lambda x, g: x - g, models, found), ()

        with jax.named_scope("fine-tuning"):
            return take_steps(step, client_params, num_steps)[0]

    return task._replace(scoring=task.scoring._replace(adapt=adapt))


@section("personal", order=95, switch="evaluate_after")
@dataclass(frozen=True)
class PersonalConfig(Section):
    """Steps of each client from its model before the model is evaluated."""

    evaluate_after: int = field(
        0,
        "steps of SGD that each client takes from its model, on its own samples, before the model is evaluated; the "
        "run goes on without them. The mean model is evaluated as it is",
        at_least=0,
        at_most=10_000,
    )
    evaluate_lr: float = field(0.1, "learning rate of these steps", above=0, finite=True)

    def in_use(self, whole: Any) -> bool:
        """Tell whether clients take steps before an evaluation."""
        return self.evaluate_after > 0

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: who alternates has personal leaves, and no account of privacy knows of the steps."""
        name = whole.algorithm.name
        kind = ALGORITHMS.numbers(name)
        if issubclass(kind, DFedAltNumbers):
            leaves = f"patterns of the leaves that {name} exchanges; the others are personal"
            yield "model.shared", not whole.model.shared, leaves
            steps = from_values(kind, vars(whole.algorithm)).personal_steps
            differ = not whole.algorithm.local_epochs and steps != whole.algorithm.local_steps
            ends = "constant or exponential unless algorithm.personal_steps and algorithm.local_steps are equal: a "
            ends += "cosine ends with the steps on the shared leaves"
            yield "algorithm.lr_schedule", whole.algorithm.lr_schedule == "cosine" and differ, ends
        private = np.isfinite(whole.privacy.clip) if hasattr(whole, "privacy") else False  # that folder may be gone
        unknown = "0 with privacy.clip: the account does not know of the gradients of an evaluation"
        yield "personal.evaluate_after", self.in_use(whole) and private, unknown

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield the steps where no client's model is evaluated."""
        yield "personal.evaluate_after", whole.judged == "global", "judged is global, which evaluates no client's model"

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return the task whose models are evaluated after the steps."""
        return fine_tuned(task, self.evaluate_after, self.evaluate_lr)
