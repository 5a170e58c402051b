"""Real data that needs no download: scikit-learn's digits and the help texts of Python itself."""

import importlib
import importlib.util
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import for_testing
from mdfl_jax.data.sources import SOURCES

LENGTH = 64  # characters of a sequence of `python_topics`
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # other characters have the token len(CHARACTERS)


@SOURCES.register("digits", cite="alpaydin1998")
def digits() -> dict[str, np.ndarray]:
    """Handwritten digits that come with scikit-learn: 1,797 images, 8 x 8, grey levels 0 to 16, uint8.

    The test split is every fifth sample of each class, in the order of the file. It has 355 samples; the training split
    has 1,442.

    Returns:
      x_train, y_train, x_test and y_test.

    Raises:
      UserError: if scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise UserError("data.name='digits' needs the package scikit-learn: pip install scikit-learn")
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():  # this takes 6 ms; importing sklearn.datasets for the same table takes a second
        table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    else:
        from sklearn.datasets import load_digits

        table = np.column_stack(load_digits(return_X_y=True)).astype(np.uint8)
    images, labels = table[:, :64].reshape(-1, 8, 8, 1), table[:, 64]
    test = for_testing(labels)
    return {"x_train": images[~test], "y_train": labels[~test], "x_test": images[test], "y_test": labels[test]}


@SOURCES.register("python_topics")
def python_topics() -> dict[str, np.ndarray]:
    """English text: Python's own help topics (``help("topics")``), cut into sequences of 64 characters.

    A topic, such as "for" or "LAMBDAS", is the natural owner of its sequences. Sample k of a topic has the characters
    64 k to 64 k + 63 of its text, and the labels are the characters 64 k + 1 to 64 k + 64. The rest of a text is left
    out. Every fifth sequence of a topic is for testing. Tokens are 0 for a line break, 1 to 95 for the printable
    characters of ASCII in their order, and 96 for any other character. The texts belong to the version of Python, so
    results can be compared only if the versions agree.

    Returns:
      x_train, y_train, x_test, y_test, int32 [n, 64] each, client and client_test, with topics in alphabetic order.

    Raises:
      UserError: if this Python comes without the module pydoc_data.
    """
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError as error:
        raise UserError("data.name='python_topics' needs pydoc_data.topics, which this Python lacks") from error
    token = {character: k for k, character in enumerate(CHARACTERS)}
    sequences, owners = [], []
    for owner, topic in enumerate(sorted(topics)):
        text = np.array([token.get(character, len(CHARACTERS)) for character in topics[topic]], np.int32)
        for start in range(0, len(text) - LENGTH, LENGTH):
            sequences.append(text[start : start + LENGTH + 1])
            owners.append(owner)
    whole, owner_of = np.stack(sequences), np.array(owners)
    test = for_testing(owner_of)
    x, y = whole[:, :-1], whole[:, 1:]
    return {
        "x_train": x[~test],
        "y_train": y[~test],
        "x_test": x[test],
        "y_test": y[test],
        "client": owner_of[~test],
        "client_test": owner_of[test],
    }
