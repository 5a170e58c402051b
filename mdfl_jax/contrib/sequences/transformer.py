"""A transformer encoder over tokens, sequences or the rows of images.

The layer normalisation stands before attention and before the dense layers, so that training needs no warm-up of the
step size.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.contrib.sequences.parts import SequenceModel, SequenceNumbers, Vectors, check_sequence
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.models.model import MODELS, ModelSettings, SampleSpec

POSITIONS = ("learned", "sinusoidal", "none")
# Flax's faster variance, the mean of squares minus the square of the mean, loses its digits far from zero.
LayerNorm = partial(nn.LayerNorm, use_fast_variance=False)


class TransformerNumbers(SequenceNumbers):
    """The numbers of the transformer."""

    width: int = number(64, "length of the vector of a position", static=True, at_least=1)
    layers: int = number(2, "blocks of attention and dense layers", static=True, at_least=1)
    heads: int = number(4, "heads of the attention, a divisor of width", static=True, at_least=1)
    dropout: float = number(
        0.0, "share of attention weights and of features that a training step drops", static=True, at_least=0, below=1
    )
    position: str = number(
        "learned", "what is added to the vector of a position", static=True, names=POSITIONS, source="Vaswani et al."
    )

    def check_sample(self, sample: SampleSpec, model: str, dataset: str) -> None:
        """Check that samples are sequences, and that the heads divide the width."""
        super().check_sample(sample, model, dataset)
        _check_heads(self.width, self.heads)


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise UserError(f"model.heads is {heads}; it must divide model.width, which is {width}")


class Block(nn.Module):
    """Attention and two dense layers, each behind a layer normalisation and around it a residual connection.

    Attributes:
      numbers: the numbers of the transformer.
      trains: whether dropout draws.
    """

    numbers: TransformerNumbers
    trains: bool

    @nn.compact
    def __call__(self, x: jax.Array, seen: jax.Array | None) -> jax.Array:
        """Apply the block to ``x`` [B, T, width]; ``seen`` [B, 1, T, T]: whether a position attends to another."""
        numbers, rate, fixed = self.numbers, self.numbers.dropout, not self.trains
        attention = nn.MultiHeadDotProductAttention(
            numbers.heads, dropout_rate=rate, deterministic=fixed, name="attention"
        )
        y = attention(LayerNorm(name="norm_0")(x), mask=seen)
        x = x + nn.Dropout(rate, deterministic=fixed)(y)
        y = nn.Dense(4 * numbers.width, name="dense_0")(LayerNorm(name="norm_1")(x))
        y = nn.Dense(numbers.width, name="dense_1")(nn.gelu(y))
        return x + nn.Dropout(rate, deterministic=fixed)(y)


class Transformer(SequenceModel):
    """An encoder: vectors and positions, blocks, a layer normalisation, and a dense layer on the mean over positions.

    With an output for each position, the dense layer is applied to each position, and no position sees a later one.
    """

    @nn.compact
    def __call__(self, samples: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs [B, C] or [B, T, C]; ``mask`` [B] is given only in training."""
        settings, numbers = self.settings, self.settings.numbers
        block = nn.remat(Block) if settings.remat else Block
        x = Vectors(settings.sample.vocabulary, numbers.width, name="vectors")(samples)
        if not settings.sample.vocabulary:
            x = nn.Dense(numbers.width, name="embedding")(x)
        if numbers.position == "learned":
            x = x + self.param("position", nn.initializers.normal(0.02), x.shape[1:]).astype(x.dtype)
        elif numbers.position == "sinusoidal":
            x = x + sinusoids(*x.shape[1:]).astype(x.dtype)
        seen = nn.make_causal_mask(jnp.zeros(x.shape[:2])) if settings.per_position else None
        x = nn.Dropout(numbers.dropout, deterministic=mask is None)(x)
        for i in range(numbers.layers):
            x = block(numbers, mask is not None, name=f"block_{i}")(x, seen)
        return self.outputs(LayerNorm(name="norm")(x), lambda positions: jnp.mean(positions, axis=1))


def sinusoids(length: int, width: int) -> np.ndarray:
    """Return the sinusoidal position encoding of Vaswani et al. (3.5), [length, width] float32.

    Number 2i of position t is sin(t / 10000^(2i / width)), and number 2i + 1 is the cosine of the same angle.
    """
    pair = np.arange(width) // 2
    angle = np.arange(length)[:, None] / 10_000 ** (2 * pair / width)
    return np.where(np.arange(width) % 2, np.cos(angle), np.sin(angle)).astype(np.float32)


@MODELS.register(
    "transformer",
    TransformerNumbers,
    formula="x <- x + attention(norm(x));  x <- x + dense(norm(x)), layer by layer;  outputs = A mean_t(norm(x)) + b",
    cite="vaswani2017; xiong2020: the place of the norm",
)
def transformer(settings: ModelSettings) -> nn.Module:
    """Small transformer over tokens, vectors or the rows of images; the mean over positions gives the outputs.

    Where the targets have a label at each position, each position gives its own outputs from those before it.

    Raises:
      UserError: if it is not known what a sample is, or if the heads do not divide the width.
    """
    check_sequence(settings, "transformer")
    _check_heads(settings.numbers.width, settings.numbers.heads)
    return Transformer(settings)
