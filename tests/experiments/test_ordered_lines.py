"""metrics.jsonl is in the order of the study's batches, also if an older version finished a later batch first."""

from mdfl_jax.experiments.results.ordered_lines import OrderedLines


def test_lines_are_in_the_order_of_batches(tmp_path):
    with (tmp_path / "lines").open("w") as file:
        lines = OrderedLines(file)
        lines.write(2, "2a\n")
        lines.write(0, "0a\n")
        lines.end(2)
        lines.write(1, "1a\n")
        assert (tmp_path / "lines").read_text() == "0a\n"
        lines.write(0, "0b\n")
        lines.end(0)
        assert (tmp_path / "lines").read_text() == "0a\n0b\n1a\n"
        lines.write(1, "1b\n")
        lines.end(1)
    assert (tmp_path / "lines").read_text() == "0a\n0b\n1a\n1b\n2a\n"
