"""LoRA: a product of two thin matrices beside each matrix of a model, which is not edited (Hu et al., ICLR 2022).

A matrix W [in, out] acts as W + (alpha / r) A B. A [in, r] is drawn, B [r, out] begins at zero, so that the adapted
model begins as the model itself. The parameters are {"base": ..., "adapters": ...}, where A and B are called a and b
under the path of W. Patterns of paths say which of them are trained (`model.trainable`) and exchanged (`model.shared`).

The layers of flax in `_features_of` compute x W + (alpha / r) (x A) B: no client has a matrix W + A B of its own, so
that a frozen W is stored once for all clients. In other layers the sum is made for each client.
"""

import math
from collections.abc import Callable, Mapping
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import unflatten_dict

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.trees import chosen_leaves, leaf_paths, path_of
from mdfl_jax.models.adapters import ClientModel, client_model, draws, variables_of, with_stream
from mdfl_jax.models.model import SampleSpec

ADAPTERS, BASE = "adapters", "base"
_DRAWS = 0x10AA  # of the key by which A is drawn, so that the model's own draws are those without adapters


class Layer(NamedTuple):
    """A matrix with an adapter.

    Attributes:
      inputs: the axes of the kernel that are summed over; the matrix has their product as its rows.
      outputs: its other axes.
      is_thin: whether its layer computes the adapter's product by itself (`_features_of`).
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_thin: bool


class LowRank(ClientModel):
    """A client model with adapters beside the matrices of another one.

    Args:
      model: the model, as `mdfl_jax.models.adapters.adapt` takes it.
      sample: what a sample is.
      num_outputs: C, the outputs of the model.
      rank: r.
      alpha: the sum A B is multiplied by alpha / r.
      on: patterns of the paths of the matrices that get an adapter, separated by commas.
      per_position: whether the outputs are [B, T, C] and not [B, C].

    Raises:
      UserError: if a pattern matches no leaf, or a leaf that is no matrix, or if the rank is above that of a matrix.
    """

    def __init__(
        self,
        model: Any,
        sample: SampleSpec,
        num_outputs: int,
        rank: int,
        alpha: float,
        on: str = "*kernel",
        per_position: bool = False,
    ):
        model = client_model(model)
        shapes = variables_of(model, sample, num_outputs, per_position)
        self.base = with_stream(model, shapes, sample)
        self.adapted_from, self.draws = getattr(model, "adapted_from", type(model)), draws(self.base)
        self.rank, self.scale = rank, alpha / rank
        samples = jax.ShapeDtypeStruct((2, *sample.shape), sample.dtype)
        self.layers = _layers(shapes["params"], _thin_layers(self.base, shapes, samples), rank, on)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the model's initial variables, and adapters whose product is zero."""
        variables, own = self.base.init(key, samples), jax.random.fold_in(key, _DRAWS)
        adapters = {}
        for k, (path, layer) in enumerate(self.layers.items()):
            drawn = jax.random.normal(jax.random.fold_in(own, k), (*layer.inputs, self.rank))
            a = drawn / math.sqrt(math.prod(layer.inputs))
            adapters[path] = {"a": a, "b": jnp.zeros((self.rank, *layer.outputs))}
        return self.around(variables, unflatten_dict(adapters, "/"))

    def around(self, variables: Any, adapters: Any = None) -> Any:
        """Return variables of the model as those of this one; without adapters, which are then still to be drawn."""
        return {**variables, "params": {BASE: variables["params"], ADAPTERS: adapters}}

    def apply(self, variables: Any, samples: jax.Array, *mask: jax.Array, **rest: Any) -> Any:
        """Return the outputs of the model with its adapters, as the model's own ``apply`` does."""
        params = variables["params"]
        adapters = {path: find(params[ADAPTERS], path) for path in self.layers}
        whole = {path: pair for path, pair in adapters.items() if not self.layers[path].is_thin}

        def summed(path: tuple[Any, ...], w: jax.Array) -> jax.Array:
            pair = whole.get(path_of(path))
            return w if pair is None else w + self.scale * jnp.tensordot(pair["a"], pair["b"], 1).astype(w.dtype)

        def add(call: Callable[..., Any], args: Any, named: Any, context: Any) -> Any:
            path = _kernel(context.module)
            if context.method_name != "__call__" or path not in adapters or path in whole:
                return call(*args, **named)
            pair = adapters[path]
            thin = context.module.clone(features=self.rank, use_bias=False, parent=None, name=None)
            inner = thin.apply({"params": {"kernel": pair["a"]}}, *args, **named)
            return call(*args, **named) + self.scale * jnp.tensordot(inner, pair["b"].astype(inner.dtype), 1)

        base = jax.tree_util.tree_map_with_path(summed, params[BASE])
        with nn.intercept_methods(add):
            return self.base.apply({**variables, "params": base}, samples, *mask, **rest)


def find(adapters: Any, path: str) -> Any:
    """Return the adapter {"a": ..., "b": ...} under the path of a matrix."""
    return reduce(getitem, path.split("/"), adapters)


def _kernel(module: nn.Module) -> str:
    """Return the path of a layer's kernel."""
    return "/".join((*module.path, "kernel")) if module.scope is not None else ""


def _features_of(module: nn.Module) -> tuple[int, ...]:
    """Return the axes of the outputs of a layer whose product with x is linear in its kernel; none of other layers."""
    if type(module) is nn.Dense:
        return (module.features,)
    if type(module) is nn.DenseGeneral and not module.batch_dims:
        return (module.features,) if isinstance(module.features, int) else tuple(module.features)
    if type(module) is nn.Conv and module.feature_group_count == 1 and module.mask is None:
        return (module.features,)
    return ()


def _thin_layers(model: Any, shapes: Any, samples: Any) -> dict[str, tuple[int, ...]]:
    """Return the axes of the outputs of each layer of `_features_of`, by the path of its kernel.

    A layer that a loop of flax repeats sees a part of its kernel, and is left out.
    """
    whole = dict(zip(leaf_paths(shapes["params"]), (leaf.shape for leaf in jax.tree.leaves(shapes["params"]))))
    found: dict[str, tuple[int, ...]] = {}

    def watch(call: Callable[..., Any], args: Any, named: Any, context: Any) -> Any:
        outputs = call(*args, **named)
        if context.method_name == "__call__" and (features := _features_of(context.module)):
            kernel, path = context.module.variables["params"]["kernel"], _kernel(context.module)
            found[path] = features if kernel.shape == whole.get(path) else ()
        return outputs

    with nn.intercept_methods(watch):
        jax.eval_shape(model.apply, shapes, samples)
    return {path: features for path, features in found.items() if features}


def _layers(params: Any, thin: Mapping[str, tuple[int, ...]], rank: int, on: str) -> dict[str, Layer]:
    """Return the layers that get an adapter, by the path of the kernel."""
    chosen = chosen_leaves(params, on, "adapters.on")
    found = {}
    for path, shape in zip(leaf_paths(chosen), (leaf.shape for leaf in jax.tree.leaves(chosen))):
        axes = len(thin[path]) if path in thin else 1
        inputs, outputs = shape[:-axes], shape[-axes:]
        if not inputs:
            raise UserError(f"adapters.on is {on!r}; it must match matrices, and {path} is of shape {list(shape)}")
        most = min(math.prod(inputs), math.prod(outputs))
        if rank > most:
            why = f"the rank of {path}; adapters.on may leave it out"
            raise UserError(f"adapters.rank is {rank}; it must be at most {most}, {why}")
        found[path] = Layer(inputs, outputs, path in thin)
    return found
