"""Long short-term memory over tokens, sequences or the rows of images."""

from typing import Any

import flax.linen as nn
import jax

from mdfl_jax.contrib.sequences.parts import SequenceModel, SequenceNumbers, Vectors, check_sequence
from mdfl_jax.core.numbers import number
from mdfl_jax.models.model import MODELS, ModelSettings


class LSTMNumbers(SequenceNumbers):
    """The numbers of the LSTM."""

    width: int = number(64, "length of the state of a layer, and of an embedding", static=True, at_least=1)
    layers: int = number(1, "layers, each over the states of the one before", static=True, at_least=1)
    dropout: float = number(
        0.0, "share of the outputs of a layer that a training step drops", static=True, at_least=0, below=1
    )


class LSTM(SequenceModel):
    """Layers of long short-term memory, and a dense layer on their states."""

    @nn.compact
    def __call__(self, samples: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs [B, C] from the last states, or [B, T, C] from all; ``mask`` is given only in training.

        The output of a position depends on this position and those before it.
        """
        numbers = self.settings.numbers
        cell = nn.remat(nn.OptimizedLSTMCell) if self.settings.remat else nn.OptimizedLSTMCell
        x = Vectors(self.settings.sample.vocabulary, numbers.width, name="vectors")(samples)
        for i in range(numbers.layers):
            states: Any = nn.RNN(cell(numbers.width, name=f"layer_{i}"))(x)
            x = nn.Dropout(numbers.dropout, deterministic=mask is None)(states)
        return self.outputs(x, lambda states: states[:, -1])


@MODELS.register(
    "lstm",
    LSTMNumbers,
    formula="h_t, c_t = LSTM(x_t, h_(t-1), c_(t-1)), layer by layer;  outputs = A h_T + b",
    cite="hochreiter1997",
)
def lstm(settings: ModelSettings) -> nn.Module:
    """LSTM over tokens, sequences of vectors or the rows of images; its last state gives the outputs.

    Where the targets have a label at each position, each state gives the outputs of its position.

    Raises:
      UserError: if it is not known what a sample is.
    """
    check_sequence(settings, "lstm")
    return LSTM(settings)
