"""FedMobile's theory for the points of a study."""

import pytest
from forked import answers
from shell import ROOT

from mdfl_jax.config import default_config
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.contrib.theory.fedmobile import RELAY_COLUMNS, relay_table


def study(**changes):
    config = default_config()
    config.update_from_flattened_dict(
        {"algorithm.name": "fedmobile", "server.pattern": "fixed", "server.pairs": 0.5, "network.num_mobile": 0}
        | changes
    )
    return points(resolve(config))


def by_loop(begin, end, rho, chance):
    """One slot at a time: no relay is met with 1 - rho * chance(slots left)."""
    missed = 1.0
    for left in range(end - begin + 1):
        missed *= 1 - rho * chance(left)
    return 1 - missed


def test_a_row_is_the_theory_of_its_point():
    """Gaps of 50: the next meeting is in s = 1 .. 50 slots with 1 / 50 each, the last one was 0 .. 49 slots ago."""
    header, first, second = relay_table(study(sweep="server.pairs=0.1,0.5")).splitlines()
    assert header.split() == " ".join(RELAY_COLUMNS).split()
    for line, rho in ((first, 0.1), (second, 0.5)):
        *_, delta, mean, upload, download, met_up, met_down = line.split()
        assert (delta, mean, upload, download) == ("50", "50", "40", "45")
        assert float(met_up) == pytest.approx(by_loop(10, 40, rho, lambda left: left / 50), abs=1e-4)
        assert float(met_down) == pytest.approx(by_loop(5, 25, rho, lambda past: (past + 1) / 50), abs=1e-4)


@pytest.mark.long
def test_the_command_prints_a_line_a_point_or_one_error(tmp_path):
    missing, server = tmp_path / "missing", "--config=configs/fedmobile_digits.py"
    found, refused, nowhere = answers(
        tmp_path,
        "theory",
        [
            [server, "--config.server.pairs=0.1"],
            [server, "--config.sweep=", "--config.algorithm.name=dpsgd"],
            ["--config=configs/digits.py", f"--json={missing}/theory.json"],
        ],
        ROOT,
    )
    assert (found.status, found.err) == (0, "")
    assert [line.split()[0] for line in found.out.splitlines()] == ["point", "fedmobile"]
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "clients that mix their models" in refused.err
    assert (nowhere.status, nowhere.out) == (2, "")
    assert nowhere.err == f"error: --json={missing}/theory.json: there is no folder '{missing}'\n"
