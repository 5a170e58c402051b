"""The playback map in a browser: it plays and pauses, draws what history.npz holds, and tells of each client."""

import numpy as np
import pytest

from tests.report.browser.pages import fits, of_map, pixels
from tests.report.conftest import write_workdir
from tests.report.kinds import write_page
from tests.report.made_report import add_records

long = pytest.mark.long
ROUNDS, CLIENTS = 40, 12


def test_it_plays_pauses_and_scrubs(open_map):
    page, section = open_map()
    assert (of_map(page, "round"), of_map(page, "playing")) == (ROUNDS - 1, False)  # this reader wants no motion
    line = section.locator(".map-line").first
    assert line.inner_text().startswith(f"Round {ROUNDS - 1} of {ROUNDS}")
    before = pixels(page)
    section.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => element.map.time > 0.5")
    assert of_map(page, "playing")
    assert line.get_attribute("aria-live") == "off"
    section.get_by_role("button", name="Pause").click()
    time = of_map(page, "time")
    page.wait_for_timeout(150)
    assert (of_map(page, "playing"), of_map(page, "time")) == (False, time)
    assert line.get_attribute("aria-live") == "polite"
    assert pixels(page) != before
    section.get_by_role("slider", name="Round").fill("25")
    assert of_map(page, "round") == 25
    assert line.inner_text().startswith(f"Round 25 of {ROUNDS}")


def test_it_plays_from_the_start_as_soon_as_it_is_in_view(open_report, recorded):
    page = open_report(recorded, height=500, moves=True)
    page.wait_for_function("() => document.getElementById('map').dataset.state === 'drawn'")  # not in view yet
    page.evaluate("window.element = document.querySelector('#map .chart')")
    assert not of_map(page, "playing")
    page.locator("#map .map-views").scroll_into_view_if_needed()
    page.wait_for_function("() => element.map.playing && element.map.time > 0.5 && element.map.time < 30")
    assert not of_map(page, "started")  # not by the reader, so a served page may be made anew
    page.locator("#map").get_by_role("button", name="Pause").click()
    page.locator("#making").scroll_into_view_if_needed()
    page.locator("#map .map-views").scroll_into_view_if_needed()
    page.wait_for_timeout(150)
    assert not of_map(page, "playing")  # who has paused it has the last word


@long
def test_two_points_go_in_step_by_keys_and_clients_glide_or_step(open_map, recorded):
    page, section = open_map()
    section.locator("canvas").first.focus()
    keys = ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home")
    for key, expected in zip(keys, (0, 1, 2, 1, ROUNDS, 0)):
        page.keyboard.press(key)
        assert of_map(page, "round") == expected
    page.keyboard.press("Space")
    assert of_map(page, "playing")
    page.keyboard.press("Space")
    assert not of_map(page, "playing")
    section.get_by_role("slider", name="Round").focus()
    page.keyboard.press("ArrowRight")
    assert of_map(page, "round") == 1
    page.keyboard.press("End")
    page.keyboard.press("Space")  # at the end, it starts again
    page.wait_for_function("() => element.map.time < 20")
    page.keyboard.press("Space")
    section.get_by_label("Right").select_option("3")
    places = np.load(recorded / "history.npz")["3/position"][0].astype(float)
    read = lambda: np.array(of_map(page, "views[1].xy")).reshape(-1, 2)  # noqa: E731
    page.evaluate("element.map.goTo(7.25)")
    np.testing.assert_allclose(read(), 0.75 * places[7] + 0.25 * places[8], atol=1e-3)
    section.get_by_label("Glide between rounds").uncheck()
    np.testing.assert_allclose(read(), places[7], atol=1e-3)
    section.get_by_label("Right").select_option(label="random movement")
    page.evaluate("element.map.goTo(13)")
    assert of_map(page, "views.map((view) => [view.frame, view.point.point])") == [[13, 0], [13, 1]]
    assert section.locator(".map-view h3").all_inner_texts() == ["static", "random movement"]
    section.get_by_label("Right").select_option(label="none")
    assert section.locator(".map-view:visible").count() == 1
    assert of_map(page, "round") == 13


@long
def test_attackers_and_rejected_models_are_drawn_and_told(open_map, tmp_path):
    folder = add_records(write_workdir(tmp_path, clients=CLIENTS, rounds=ROUNDS), one_way=True, attacked=True)
    history = np.load(folder / "history.npz")
    page, section = open_map(folder=write_page(folder))
    for at in (3, 17):
        page.evaluate(f"element.map.goTo({at})")
        rejected = np.unpackbits(history["0/rejected"][0, at], axis=1, count=CLIENTS).astype(bool)
        found = np.array(of_map(page, "views[0].links.rejected"), int).reshape(-1, 2)
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, np.argwhere(rejected).tolist()))
        assert f"{rejected.sum()} model" in section.locator(".map-line").first.inner_text()
    legend = section.locator(".map-key, .map-legend").first.inner_text()
    assert "attacker" in legend
    assert "model rejected, at the bar" in legend
    client = int(np.argwhere(rejected)[0, 0])
    section.get_by_role("combobox", name="Client").select_option(str(client))
    told = section.locator(".map-client").first.inner_text()
    assert f"rejects {', '.join(map(str, np.flatnonzero(rejected[client])))}" in told
    section.get_by_role("combobox", name="Client").select_option("6")
    assert "Client 6, static, attacks" in section.locator(".map-client").first.inner_text()
    before = pixels(page)
    page.evaluate("() => { for (const view of element.map.views) view.point.attackers = null; element.map.draw(); }")
    assert pixels(page) != before


@long
def test_a_client_tells_of_itself_and_a_phone_has_one_map_under_the_other(open_map, recorded):
    page, section = open_map()
    section.get_by_role("combobox", name="Client").select_option("2")
    told = section.locator(".map-client").first
    counts = np.load(recorded / "history.npz")["0/label_counts"][0, 2]
    assert "Client 2, static" in told.inner_text()  # of the static point nobody moves
    assert f"{counts.sum()} samples of class {counts.argmax()} ({counts.max()})" in told.inner_text()
    section.locator("canvas").first.focus()
    page.keyboard.press("Escape")
    assert not told.is_visible()
    place = page.evaluate(
        """() => { const { left, top } = document.querySelector('#map canvas').getBoundingClientRect();
          const [x, y] = element.map.where(0, 5); return [left + x, top + y]; }"""
    )
    page.mouse.move(*place)
    assert "Client 5" in told.inner_text()
    page.mouse.move(2, 2)
    assert not told.is_visible()
    page, section = open_map(360)
    assert fits(page)
    first, second = (section.locator(".map-view").nth(k).bounding_box() for k in range(2))
    assert first["y"] + first["height"] <= second["y"]
    before = pixels(page)
    page.locator("#theme").click()
    assert pixels(page) != before  # the colours of the page are those of the map


@long
def test_what_is_drawn_is_what_was_recorded(open_map, recorded):
    page, section = open_map()
    history = np.load(recorded / "history.npz")
    points = [option.get_attribute("value") for option in section.get_by_label("Left").locator("option").all()]
    assert len(points) == 4
    for p in points:
        section.get_by_label("Left").select_option(p)
        hears = np.unpackbits(history[f"{p}/links"][0], axis=2, count=CLIENTS).astype(bool)
        for at in (0, 1, 17, ROUNDS - 1):
            page.evaluate(f"element.map.goTo({at})")
            shown = of_map(page, "views[0]")
            found = np.zeros((CLIENTS, CLIENTS), bool)
            both, one = (np.array(shown["links"][key], int).reshape(-1, 2) for key in ("pairs", "oneWay"))
            found[both[:, 0], both[:, 1]] = found[both[:, 1], both[:, 0]] = True
            found[one[:, 0], one[:, 1]] = True
            assert np.array_equal(found, hears[at])
            places = np.array(shown["xy"]).reshape(-1, 2)
            np.testing.assert_allclose(places, history[f"{p}/position"][0, at], atol=1e-3)
            links, present = (hears[at] | hears[at].T).sum() // 2, history[f"{p}/present"][0, at].sum()
            text = section.locator(".map-line").first.inner_text()
            assert f"{links} link" in text
            assert present == CLIENTS or f"{present} of {CLIENTS} clients present" in text
            met = history[f"{p}/met_server"][0, at].sum()
            assert f"{met} meet{'s' if met == 1 else ''} the server" in text
            mean = 100 * history[f"{p}/accuracy"][0, at // 10].mean()
            assert f"mean accuracy {mean:.1f} % (round {at // 10 * 10})" in text
    page.evaluate(f"element.map.goTo({ROUNDS})")
    assert "the end" in section.locator(".map-line").first.inner_text()
    assert of_map(page, "views[0].links.count") == 0


@long
def test_switches_change_what_is_drawn(open_map):
    page, section = open_map()
    page.evaluate("element.map.goTo(12)")
    switches = section.locator(".map-controls input[type=checkbox]")
    names = [switch.get_attribute("data-switch") for switch in switches.all()]
    assert names == ["links", "ranges", "trails", "goals", "meetings", "pies", "numbers", "smooth"]
    for name in names[:-1]:
        before = pixels(page, 1)
        section.locator(f"[data-switch={name}]").click()
        assert pixels(page, 1) != before, name
        section.locator(f"[data-switch={name}]").click()


@long
def test_two_maps_of_two_hundred_clients_are_drawn_thirty_times_a_second(open_map, tmp_path):
    folder = write_workdir(tmp_path / "large", clients=200, grid=60, rounds=60, radius=7.0, seeds=1)
    page, _ = open_map(1400, folder=write_page(add_records(folder, radius=7.0)))
    draw = "element.map.goTo(10 + k / 4); return element.map.milliseconds;"
    times = page.evaluate(f"() => Array.from({{ length: 60 }}, (_, k) => {{ {draw} }})")
    assert of_map(page, "views.map((view) => view.links.count)[1]") > 300
    assert np.median(times) < 33  # the work of the script; other work of the machine adds to the time of a picture


VEHICLES, SHORT, RADIUS = 1200, 3, 60.0


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A study of 1,200 vehicles in a plane, some of them absent, and its page."""
    folder = tmp_path_factory.mktemp("many")
    points = [{"network.mobility": "trace", "network.contact": contact} for contact in ("disc", "swept")]
    write_workdir(folder, points, clients=VEHICLES, rounds=SHORT, every=1, seeds=1, radius=RADIUS)
    with np.load(folder / "history.npz") as history:
        arrays = dict(history)
    rng = np.random.default_rng(3)
    start = rng.uniform(-500, 900, (1, VEHICLES, 2))
    place = np.concatenate([start, start + rng.uniform(-40, 40, (SHORT, VEHICLES, 2)).cumsum(axis=0)])
    for p in range(2):
        arrays[f"{p}/position"] = place[None].astype(np.float32)
        arrays[f"{p}/is_mobile"] = np.ones((1, VEHICLES), bool)
        arrays[f"{p}/present"] = rng.random((1, SHORT, VEHICLES)) < 0.9
    np.savez(folder / "history.npz", **arrays)
    return write_page(folder)


def contacts(place, at, swept):
    """[N, N] the distance of each two clients, the least of the movement before the round if contact is swept."""
    now, before = place[at], place[at - 1] if swept else place[at]
    times = np.linspace(0, 1, 21)[:, None, None] if swept else np.ones((1, 1, 1))
    ways = before + times * (now - before)
    return np.min([np.linalg.norm(way[:, None] - way, axis=-1) for way in ways], axis=0)


@long
def test_many_clients_are_dots_whose_links_are_those_of_all_pairs(open_map, many):
    page, section = open_map(folder=many)
    assert not section.get_by_label("Ranges", exact=True).is_checked()
    assert not section.get_by_label("Paths", exact=True).is_checked()
    assert "Each client is a dot" in section.inner_text()
    history = np.load(many / "history.npz")
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
        shown = section.locator(".map-line").nth(p).inner_text()
        assert f"{len(pairs)} links" in shown
        assert f"{there.sum()} of {VEHICLES} clients present" in shown
    x, y = page.evaluate("element.map.where(0, 7)")
    section.locator("canvas").first.click(position={"x": x, "y": y})
    assert section.locator(".map-client").first.inner_text().startswith("Client ")  # a dot is found by the pointer
