"""The line for an unknown name."""

from mdfl_jax.core.errors import MOST, unknown_name


def test_few_names_are_all_told():
    assert unknown_name("mixing", "fedavgg", ["lazy", "fedavg"]) == (
        "unknown mixing 'fedavgg' (did you mean 'fedavg'?); known: fedavg, lazy"
    )
    assert unknown_name("loss", "?", ["", "squared_error"]) == "unknown loss '?'; known: squared_error"
    assert unknown_name("mixing", "?", ["lazy", "fedavg"]) == "unknown mixing '?'; known: fedavg, lazy"


def test_of_many_names_the_most_similar_ones_are_told():
    known = [f"section.field_{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + ["algorithm.lr"]
    line = unknown_name("config key", "algorithm.lrr", known)
    assert line.startswith("unknown config key 'algorithm.lrr' (did you mean 'algorithm.lr'?); among the 27 known: ")
    assert "algorithm.lr," in line
    assert len(line.split(": ")[-1].split(", ")) == MOST // 2
