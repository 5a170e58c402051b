"""The playback map in a browser: it plays and pauses, draws what history.npz holds, and tells of each client."""

import numpy as np
import pytest

from tests.report.browser.pages import fits, of_map, pixels
from tests.report.conftest import write_workdir
from tests.report.kinds import write_page
from tests.report.made_report import add_records

pytestmark = pytest.mark.long  # a quick test of test_browser_page.py draws a map
ROUNDS, CLIENTS = 40, 12


def test_it_plays_from_the_start_in_view_goes_by_keys_and_clients_glide_or_step(open_report, recorded):
    page = open_report(recorded, height=500, moves=True)
    page.wait_for_function("() => document.getElementById('map').dataset.state === 'drawn'")  # not in view yet
    page.evaluate("window.element = document.querySelector('#map .chart')")
    assert not of_map(page, "playing")
    section = page.locator("#map")
    section.locator(".map-views").scroll_into_view_if_needed()
    page.wait_for_function("() => element.map.playing && element.map.time > 0.5 && element.map.time < 30")
    section.get_by_role("button", name="Pause").click()
    page.locator("#making").scroll_into_view_if_needed()
    section.locator(".map-views").scroll_into_view_if_needed()
    page.wait_for_timeout(150)
    assert not of_map(page, "playing")  # who has paused it has the last word
    section.locator("canvas").first.focus()
    for key, expected in (("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("End", ROUNDS)):
        page.keyboard.press(key)
        assert of_map(page, "round") == expected
    page.keyboard.press("Space")  # at the end, it starts again
    page.wait_for_function("() => element.map.time < 20")
    page.keyboard.press("Space")
    assert not of_map(page, "playing")
    section.get_by_label("Right").select_option("3")
    places = np.load(recorded / "history.npz")["3/position"][0].astype(float)
    read = lambda: np.array(of_map(page, "views[1].xy")).reshape(-1, 2)  # noqa: E731
    page.evaluate("element.map.goTo(7.25)")
    np.testing.assert_allclose(read(), 0.75 * places[7] + 0.25 * places[8], atol=1e-3)
    section.get_by_label("Glide between rounds").uncheck()
    np.testing.assert_allclose(read(), places[7], atol=1e-3)
    assert of_map(page, "views.map((view) => [view.frame, view.point.point])") == [[7, 0], [7, 3]]


def test_a_client_tells_of_itself_switches_change_the_picture_and_a_phone_has_one_map_under_the_other(
    open_map, recorded
):
    page, section = open_map()
    assert (of_map(page, "round"), of_map(page, "playing")) == (ROUNDS - 1, False)  # this reader wants no motion
    section.get_by_role("combobox", name="Client").select_option("2")
    told = section.locator(".map-client").first
    counts = np.load(recorded / "history.npz")["0/label_counts"][0, 2]
    assert "Client 2, static" in told.inner_text()  # of the static point nobody moves
    assert f"{counts.sum()} samples of class {counts.argmax()} ({counts.max()})" in told.inner_text()
    section.get_by_role("slider", name="Round").fill("12")
    assert section.locator(".map-line").first.inner_text().startswith(f"Round 12 of {ROUNDS}")
    for name in ("links", "ranges", "trails", "goals", "meetings", "pies", "numbers"):
        before = pixels(page, 1)
        section.locator(f"[data-switch={name}]").click()
        assert pixels(page, 1) != before, name
        section.locator(f"[data-switch={name}]").click()
    page, section = open_map(360)
    assert fits(page)
    first, second = (section.locator(".map-view").nth(k).bounding_box() for k in range(2))
    assert first["y"] + first["height"] <= second["y"]
    before = pixels(page)
    page.locator("#theme").click()
    assert pixels(page) != before  # the colours of the page are those of the map


@pytest.mark.parametrize("one_way", [True, False])  # two codes of links
def test_what_is_drawn_is_what_was_recorded(open_map, tmp_path, one_way):
    """Places, links in one direction and in both, those present, meetings, accuracies, attackers, rejected models."""
    folder = write_workdir(tmp_path, clients=CLIENTS, rounds=ROUNDS)
    page, section = open_map(folder=write_page(add_records(folder, server=True, one_way=one_way, attacked=True)))
    history = np.load(folder / "history.npz")
    bits = lambda name, at: np.unpackbits(history[name][0, at], axis=1, count=CLIENTS).astype(bool)  # noqa: E731
    for p in range(4):
        section.get_by_label("Left").select_option(str(p))
        for at in (0, 17, ROUNDS - 1):
            page.evaluate(f"element.map.goTo({at})")
            shown, hears, rejected = of_map(page, "views[0]"), bits(f"{p}/links", at), bits(f"{p}/rejected", at)
            pairs = {k: np.array(shown["links"][k], int).reshape(-1, 2) for k in ("pairs", "oneWay", "rejected")}
            found = np.zeros((CLIENTS, CLIENTS), bool)
            found[tuple(pairs["pairs"].T)] = found[tuple(pairs["pairs"].T[::-1])] = True
            found[tuple(pairs["oneWay"].T)] = True
            assert np.array_equal(found, hears)
            assert sorted(map(tuple, pairs["rejected"].tolist())) == sorted(map(tuple, np.argwhere(rejected).tolist()))
            places = np.array(shown["xy"]).reshape(-1, 2)
            np.testing.assert_allclose(places, history[f"{p}/position"][0, at], atol=1e-3)
            present, met = history[f"{p}/present"][0, at].sum(), history[f"{p}/met_server"][0, at].sum()
            text = section.locator(".map-line").first.inner_text()
            assert f"{(hears | hears.T).sum() // 2} link" in text
            assert present == CLIENTS or f"{present} of {CLIENTS} clients present" in text
            assert f"{met} meet{'s' if met == 1 else ''} the server" in text
            assert f"{rejected.sum()} model" in text
            mean = 100 * history[f"{p}/accuracy"][0, at // 10].mean()
            assert f"mean accuracy {mean:.1f} % (round {at // 10 * 10})" in text
    section.get_by_role("combobox", name="Client").select_option("6")
    assert "attacks" in section.locator(".map-client").first.inner_text()
    before = pixels(page)
    page.evaluate("() => { for (const view of element.map.views) view.point.attackers = null; element.map.draw(); }")
    assert pixels(page) != before
    page.evaluate(f"element.map.goTo({ROUNDS})")
    assert "the end" in section.locator(".map-line").first.inner_text()
    assert of_map(page, "views[0].links.count") == 0


VEHICLES, SHORT, RADIUS = 1200, 3, 60.0


def contacts(place, at, swept):
    """[N, N] the distance of each two clients, the least of the movement before the round if contact is swept."""
    now, before = place[at], place[at - 1] if swept else place[at]
    times = np.linspace(0, 1, 21)[:, None, None] if swept else np.ones((1, 1, 1))
    ways = before + times * (now - before)
    return np.min([np.linalg.norm(way[:, None] - way, axis=-1) for way in ways], axis=0)


def test_many_clients_are_dots_whose_links_are_those_of_all_pairs(open_map, tmp_path):
    """Of 1,200 vehicles in a plane, some of them absent, no links were recorded."""
    points = [{"network.mobility": "trace", "network.contact": contact} for contact in ("disc", "swept")]
    folder = write_workdir(tmp_path, points, clients=VEHICLES, rounds=SHORT, every=1, seeds=1, radius=RADIUS)
    history, rng = dict(np.load(folder / "history.npz")), np.random.default_rng(3)
    start = rng.uniform(-500, 900, (1, VEHICLES, 2))
    place = np.concatenate([start, start + rng.uniform(-40, 40, (SHORT, VEHICLES, 2)).cumsum(axis=0)])
    for p in range(2):
        history[f"{p}/position"] = place[None].astype(np.float32)
        history[f"{p}/is_mobile"] = np.ones((1, VEHICLES), bool)
        history[f"{p}/present"] = rng.random((1, SHORT, VEHICLES)) < 0.9
    np.savez(folder / "history.npz", **history)
    page, section = open_map(folder=write_page(folder))
    assert "Each client is a dot" in section.inner_text()
    page.evaluate("element.map.goTo(2)")
    for p, view in enumerate(page.evaluate("element.map.views")):
        there = history[f"{p}/present"][0, 2]
        distance = contacts(history[f"{p}/position"][0].astype(float), 2, swept=p == 1)
        found = np.zeros((VEHICLES, VEHICLES), bool)
        pairs = np.array(view["links"]["pairs"]).reshape(-1, 2)
        assert (pairs[:, 0] < pairs[:, 1]).all()
        found[tuple(pairs.T)] = True
        assert found.sum() == len(pairs) > 1000
        both = np.triu(there[:, None] & there, 1)
        sure = both & (distance < RADIUS - 0.1)  # a sampled way is a little longer than the true distance
        never = ~both | (distance > RADIUS + (1.0 if p else 0.1))
        assert (found | ~sure).all()
        assert not (found & never).any()
