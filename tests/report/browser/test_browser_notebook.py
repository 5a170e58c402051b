"""`results.map(point, seed)` as a notebook shows it: in a frame without rights, the map of that run plays."""

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.results import Results
from mdfl_jax.study import make_study
from tests.tiny import run_study, tiny_config

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook") / "run"
    config = tiny_config(sweep="network.mobility=static,random_movement", baseline="", rounds=6, eval_every=3, seeds=2)
    run_study(make_study(config), folder)
    return Results.load(folder)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_map_of_a_run_plays_in_a_frame(results, open_report, tmp_path, seed):
    shown = results.map("random_movement", seed)
    assert repr(shown) == f"<Map of random_movement, seed {seed}; a notebook plays it>"
    assert len(shown.page) < 300_000  # no plotting library
    (tmp_path / "cell.html").write_text(
        f'<!doctype html><html data-state="ready"><body>{shown._repr_html_()}</body></html>'
    )
    frame = open_report(tmp_path / "cell.html").frames[1]
    frame.wait_for_selector("section.panel[data-state=drawn]")
    assert f"seed {seed}" in frame.locator(".caption").inner_text()
    frame.evaluate("window.map = document.querySelector('#map .chart').map")
    drawn = np.array(frame.evaluate("() => { map.goTo(4); return [...map.views[0].xy]; }")).reshape(-1, 2)
    position = results.array("position", "random_movement")[seed]
    np.testing.assert_allclose(drawn, position[4], atol=1e-3)
    assert np.any(position[4] != results.array("position", "random_movement")[1 - seed][4])
    frame.evaluate("map.goTo(0)")
    frame.get_by_role("button", name="Play").click()
    frame.wait_for_function("() => map.time > 0.5")


def test_what_cannot_be_shown_is_told(results):
    assert results.map().title == "Map of static, seed 0"
    with pytest.raises(UserError, match="the seed is 7; the study has 0, 1"):
        results.map("static", 7)
    with pytest.raises(UserError, match=r"unknown point 'statik' \(did you mean 'static'\?\)"):
        results.map("statik")
