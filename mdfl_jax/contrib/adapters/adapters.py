"""The section `adapters`: a model whose clients train low-rank products beside its matrices."""

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdfl_jax.contrib.adapters.lora import ADAPTERS, LowRank
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.section import Rule, Section, field, section
from mdfl_jax.core.trees import patterns_in


@section("adapters", order=94, switch="rank")
@dataclass(frozen=True)
class AdaptersConfig(Section):
    """Low-rank adapters (LoRA) beside the matrices of the model, under the paths adapters/...; the model is base/..."""

    rank: int = field(0, "rank r of the product A B beside each matrix; 0: no adapters", at_least=0, at_most=65_536)
    alpha: float = field(8.0, "the product is multiplied by alpha / r", above=0, finite=True)
    on: str = field(
        "*kernel",
        "patterns of the paths of the matrices that get an adapter, separated by commas; * stands for any text",
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether the model has adapters."""
        return self.rank > 0

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: the leaves that are trained are named, and so are the matrices."""
        used = self.in_use(whole)
        frozen = "patterns of the leaves that are trained, such as adapters/*: the others are frozen"
        yield "model.trainable", used and not whole.model.trainable, frozen
        yield "adapters.on", used and not self.on.strip(" ,"), "patterns of paths"

    def wrap_model(self, model: Any, whole: Any, settings: Any) -> Any:
        """Return the model with adapters, some of which are trained.

        Raises:
          UserError: If the adapters do not fit the model, or if no B is trained: it would stay zero, and A with it.
        """
        shown = settings.sample, settings.num_classes
        made = LowRank(model, *shown, self.rank, self.alpha, self.on, settings.per_position)
        ends, patterns = [f"{ADAPTERS}/{path}/b" for path in made.layers], patterns_in(whole.model.trainable)
        if not any(fnmatch.filter(ends, pattern) for pattern in patterns):
            must = (
                f"it must match some of {ADAPTERS}/*/b with adapters.rank: they begin at zero, and no adapter would act"
            )
            raise UserError(f"model.trainable is {whole.model.trainable!r}; {must}")
        return made
