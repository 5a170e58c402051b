"""`results.map(point, seed)` as a notebook shows it: in a frame without rights, the map of that run plays."""

import numpy as np
import pytest
from made_study import made

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError


@pytest.mark.long
def test_the_map_of_a_run_plays_in_a_frame(open_report, tmp_path):
    made(tmp_path / "run", sweep="network.mobility=static,random_movement", seeds=2)
    results = Results.load(tmp_path / "run")
    shown = results.map("random_movement", 1)
    assert len(shown.page) < 300_000  # no plotting library
    cell = f'<!doctype html><html data-state="ready"><body>{shown._repr_html_()}</body></html>'
    (tmp_path / "cell.html").write_text(cell)
    frame = open_report(tmp_path / "cell.html").frames[1]
    frame.wait_for_selector("section.panel[data-state=drawn]")
    assert "seed 1" in frame.locator(".caption").inner_text()
    frame.evaluate("window.map = document.querySelector('#map .chart').map")
    drawn = np.array(frame.evaluate("() => { map.goTo(3); return [...map.views[0].xy]; }")).reshape(-1, 2)
    position = results.array("position", "random_movement")
    np.testing.assert_allclose(drawn, position[1][3], atol=1e-2)
    assert np.any(position[1][3] != position[0][3])
    frame.evaluate("map.goTo(0)")
    frame.get_by_role("button", name="Play").click()
    frame.wait_for_function("() => map.time > 0.5")
    with pytest.raises(UserError, match="the seed is 7; the study has 0, 1"):
        results.map("static", 7)
