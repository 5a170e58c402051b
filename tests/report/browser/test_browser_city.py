"""The map of many clients: its links are those of a search over all pairs, and each client is a dot."""

import numpy as np
import pytest

from tests.report.conftest import write_workdir

CLIENTS, ROUNDS, RADIUS = 1200, 3, 60.0


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A study of 1,200 vehicles in a plane, some of them absent, and its page."""
    from mdfl_jax.report.page import render
    from mdfl_jax.report.read import read_workdir

    folder = tmp_path_factory.mktemp("many")
    points = [{"network.mobility": "trace", "network.contact": contact} for contact in ("disc", "swept")]
    write_workdir(folder, points, clients=CLIENTS, rounds=ROUNDS, every=1, seeds=1, radius=RADIUS)
    with np.load(folder / "history.npz") as history:
        arrays = dict(history)
    rng = np.random.default_rng(3)
    start = rng.uniform(-500, 900, (1, CLIENTS, 2))
    place = np.concatenate([start, start + rng.uniform(-40, 40, (ROUNDS, CLIENTS, 2)).cumsum(axis=0)])
    for p in range(2):
        arrays[f"{p}/position"] = place[None].astype(np.float32)
        arrays[f"{p}/is_mobile"] = np.ones((1, CLIENTS), bool)
        arrays[f"{p}/present"] = rng.random((1, ROUNDS, CLIENTS)) < 0.9
    np.savez(folder / "history.npz", **arrays)
    (folder / "report.html").write_text(render(read_workdir(folder)), encoding="utf-8")
    return folder


def contacts(place, at, swept):
    """[N, N] the distance of each two clients, the least of the movement before the round if contact is swept."""
    now, before = place[at], place[at - 1] if swept else place[at]
    times = np.linspace(0, 1, 21)[:, None, None] if swept else np.ones((1, 1, 1))
    ways = before + times * (now - before)
    return np.min([np.linalg.norm(way[:, None] - way, axis=-1) for way in ways], axis=0)


@pytest.mark.long
def test_many_clients_are_dots_whose_links_are_those_of_all_pairs(open_report, show_panel, many):
    page = open_report(many)
    section = show_panel(page, "map")
    assert not section.get_by_label("Ranges", exact=True).is_checked()
    assert not section.get_by_label("Paths", exact=True).is_checked()
    assert "Each client is a dot" in section.inner_text()
    history = np.load(many / "history.npz")
    page.evaluate("window.element = document.querySelector('#map .chart'); element.map.goTo(2)")
    for p, view in enumerate(page.evaluate("element.map.views")):
        there = history[f"{p}/present"][0, 2]
        distance = contacts(history[f"{p}/position"][0].astype(float), 2, swept=p == 1)
        found = np.zeros((CLIENTS, CLIENTS), bool)
        pairs = np.array(view["links"]["pairs"]).reshape(-1, 2)
        assert (pairs[:, 0] < pairs[:, 1]).all()
        found[tuple(pairs.T)] = True
        assert found.sum() == len(pairs) > 1000
        both = np.triu(there[:, None] & there, 1)
        sure = both & (distance < RADIUS - 0.1)  # a sampled way is a little longer than the true distance
        never = ~both | (distance > RADIUS + (1.0 if p else 0.1))
        assert (found | ~sure).all()
        assert not (found & never).any()
        shown = section.locator(".map-line").nth(p).inner_text()
        assert f"{len(pairs)} links" in shown
        assert f"{there.sum()} of {CLIENTS} clients present" in shown
    x, y = page.evaluate("element.map.where(0, 7)")
    section.locator("canvas").first.click(position={"x": x, "y": y})
    assert section.locator(".map-client").first.inner_text().startswith("Client ")  # a dot is found by the pointer
