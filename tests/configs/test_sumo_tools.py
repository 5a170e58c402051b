"""Tools of SUMO: found or missed in one line, run, and what they write; a folder with scripts stands for SUMO."""

import io
import stat

import pytest
from small import told

from configs.data.sumo_tools import call, only_streets
from mdfl_jax.traces.formats.sumo import read_streets

FCD = '<?xml version="1.0"?>\n\n<!-- generated on a day\n<a/> -->\n\n<fcd-export>\n  <!-- kept -->\n</fcd-export>\n'
BARE = FCD.replace("<!-- generated on a day\n<a/> -->\n\n", "")
NET = """<?xml version="1.0" encoding="UTF-8"?>
<!-- generated on a day -->
<net version="1.20">
    <location netOffset="0.00,0.00" projParameter="!"/>
    <edge id=":a_0" function="internal">
        <lane id=":a_0_0" shape="0,0 9,9"/>
    </edge>
    <edge id="one" from="a" to="b">
        <lane id="one_0" shape="0,0 50,0"/>
        <lane id="one_1" shape="0,3 50,3"/>
    </edge>
    <tlLogic id="a" type="static"/>
    <junction id="a" type="traffic_light"/>
</net>
"""


@pytest.fixture
def home(tmp_path):
    """A folder of SUMO whose program `sumo` prints a file, and whose script fails."""
    for name, text in {
        "bin/sumo": f"#!/bin/sh\ntouch ran-in-$1\ncat <<'END'\n{FCD}END\n",
        "tools/randomTrips.py": "import sys\nprint('Error: no edge', sys.argv[1], file=sys.stderr)\n"
        "print('Quitting', file=sys.stderr)\nsys.exit(3)\n",
        "tools/silent.py": "raise SystemExit(4)\n",
    }.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return tmp_path / "home"


def test_a_tool_runs_in_the_folder_and_its_file_has_no_date(home, tmp_path):
    into = io.BytesIO()
    call(home, tmp_path, "sumo", 7, into=into)
    assert into.getvalue().decode() == BARE
    assert (tmp_path / "ran-in-7").is_file()


@pytest.mark.parametrize(
    ("tool", "said"),
    [("randomTrips.py", "randomTrips.py of SUMO failed: Error: no edge x"), ("silent.py", "failed: exit status 4")],
)
def test_a_tool_that_fails_is_one_line(home, tmp_path, tool, said):
    assert said in told(call, home, tmp_path, tool, "x")


def test_only_the_streets_of_a_network_are_left(tmp_path):
    short = only_streets(NET)
    assert not any(word in short for word in ("generated", "internal", ":a_0", "tlLogic", "junction"))
    found = []
    for text in (NET, short):
        (tmp_path / "a.net.xml").write_text(text)
        found.append([line.tolist() for line in read_streets(tmp_path / "a.net.xml")])
    assert found[0] == found[1] == [[[0, 0], [50, 0]]]
