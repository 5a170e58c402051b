"""The film of a new user's first minutes: its commands run in an empty folder, and the page shows these commands."""

import pytest

from benchmarks import first_minutes

SHORT = ("--config.rounds=2", "--config.eval_every=2", "--config.seeds=1", "--config.model.name=linear")


def test_the_page_shows_the_commands_with_seconds_that_add_up():
    text = first_minutes.PAGE.read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "`mdfl" in line]
    assert [(command.strip("`"), what) for what, command, *_ in rows] == list(first_minutes.STEPS)
    seconds = [float(row[2]) for row in rows]
    assert float(rows[-1][3]) == pytest.approx(sum(seconds), abs=len(rows) / 2)
    machine = text.split(" command on ")[1].split(". The package")[0]
    assert first_minutes.page(seconds, machine).splitlines()[:6] == text.splitlines()[:6]


@pytest.mark.long
def test_every_command_of_the_film_ends_well(tmp_path):
    assert len(first_minutes.film(tmp_path, SHORT)) == len(first_minutes.STEPS)
    assert (tmp_path / "accuracy.png").stat().st_size > 5000
    assert (tmp_path / "runs" / "digits" / "report.html").is_file()
