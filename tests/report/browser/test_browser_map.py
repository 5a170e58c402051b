"""The playback map in a browser: it plays, pauses and scrubs, and what it draws is what history.npz holds."""

import numpy as np
import pytest

from tests.report.conftest import write_workdir
from tests.report.recorded_rounds import add_records

ROUNDS, CLIENTS = 40, 12


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A study of four points with all records of the rounds, and its page with the map."""
    from mdfl_jax.report.page import render
    from mdfl_jax.report.read import read_workdir

    folder = write_workdir(tmp_path_factory.mktemp("recorded"), clients=CLIENTS, rounds=ROUNDS, seeds=2)
    add_records(folder, server=True, one_way=True)
    (folder / "report.html").write_text(render(read_workdir(folder)), encoding="utf-8")
    return folder


@pytest.fixture
def open_map(open_report, show_panel, recorded):
    """Returns open_map(width, scheme) -> (the page, the section of the map); `element` is the map in scripts."""

    def opened(width=1200, scheme="light", **options):
        page = open_report(recorded, width, scheme, **options)
        section = show_panel(page, "map")
        page.evaluate("window.element = document.querySelector('#map .chart')")
        return page, section

    return opened


def state(page, name):
    return page.evaluate(f"element.map.{name}")


def pixels(page, view=0):
    """The picture of a map as a text, to tell whether it has changed."""
    return page.evaluate(f"document.querySelectorAll('#map canvas')[{view}].toDataURL()")


def test_it_plays_pauses_and_scrubs(open_map):
    page, section = open_map()
    assert (state(page, "round"), state(page, "playing")) == (0, False)  # it never plays of itself
    line = section.locator(".map-line").first
    assert line.inner_text().startswith(f"Round 0 of {ROUNDS}")
    before = pixels(page)
    section.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => element.map.time > 0.5")
    assert state(page, "playing")
    assert line.get_attribute("aria-live") == "off"
    section.get_by_role("button", name="Pause").click()
    time = state(page, "time")
    page.wait_for_timeout(150)
    assert (state(page, "playing"), state(page, "time")) == (False, time)
    assert line.get_attribute("aria-live") == "polite"
    assert pixels(page) != before
    section.get_by_role("slider", name="Round").fill("25")
    assert state(page, "round") == 25
    assert line.inner_text().startswith(f"Round 25 of {ROUNDS}")


@pytest.mark.long
def test_rings_of_labels_have_the_form_of_the_marks_and_leave_the_numbers(open_map, recorded):
    page, section = open_map()
    for name in ("Links", "Ranges", "Paths", "Destinations", "Meetings"):
        box = section.get_by_label(name, exact=True)
        if box.count():
            box.uncheck()
    section.get_by_label("Labels as rings").check()
    section.get_by_label("Left").select_option(label="dcm")  # whose mobile clients move
    with np.load(recorded / "history.npz") as history:
        counts, mobile = history["3/label_counts"][0], history["3/is_mobile"][0]
    places = np.array([page.evaluate(f"element.map.where(0, {i})") for i in range(CLIENTS)])
    apart = np.linalg.norm(places[:, None] - places, axis=2) + 99 * np.eye(CLIENTS)
    clients = [i for i in range(CLIENTS) if apart[i].min() > 40 and counts[i].sum()]
    assert {bool(mobile[i]) for i in clients} == {False, True}
    assert page.evaluate("mdfl.map.markerSize({point: element.map.views[0].point, width: 500})") == 9.5
    corners = [(places[i] + 0.9 * (9.5 + 2.5)).round().tolist() for i in clients]  # at the lower right of the rings
    script = """corners => {
      const { data, width } = ((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height))(
        document.querySelector("#map canvas"));
      return corners.map(([x, y]) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 4)]);
    }"""
    for i, colour in zip(clients, page.evaluate(script, corners)):  # the shares begin at the top
        label = int(np.searchsorted(counts[i].cumsum() / counts[i].sum(), 0.375))
        expected = [*page.evaluate(f"mdfl.parse(mdfl.map.classColour({label}, 10))"), 255]
        assert (colour == expected) is not bool(mobile[i]), (i, colour, expected)  # a circle has no corner
    before = pixels(page)
    section.get_by_label("Numbers").uncheck()
    assert pixels(page) != before


@pytest.mark.long
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
            shown = state(page, "views[0]")
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
    assert state(page, "views[0].links.count") == 0


@pytest.mark.long
def test_links_that_were_not_recorded_are_computed_like_recorded_ones(open_report, show_panel, tmp_path):
    from mdfl_jax.report.page import render
    from mdfl_jax.report.read import read_workdir

    folder = write_workdir(tmp_path / "plain", clients=CLIENTS, rounds=20, radius=4.0, seeds=1)
    (folder / "report.html").write_text(render(read_workdir(folder)), encoding="utf-8")
    page = open_report(folder)
    section = show_panel(page, "map")
    assert "computed from the places" in section.inner_text()
    page.evaluate("window.element = document.querySelector('#map .chart')")
    section.get_by_label("Left").select_option("3")
    places = np.load(folder / "history.npz")["3/position"][0].astype(float)
    for at in range(20):
        page.evaluate(f"element.map.goTo({at})")
        pairs = state(page, "views[0].links.pairs")
        near = {
            (i, j)
            for i in range(CLIENTS)
            for j in range(i + 1, CLIENTS)
            if np.hypot(*(places[at, i] - places[at, j])) <= 4
        }
        assert set(zip(pairs[::2], pairs[1::2])) == near


@pytest.mark.long
def test_a_stopped_run_says_so_and_contacts_on_the_way_need_all_rounds(open_report, show_panel, tmp_path, monkeypatch):
    """The first point stops after 12 of 40 rounds; the second one has swept contacts and some of its rounds."""
    from mdfl_jax.report import page, playback
    from mdfl_jax.report.read import read_workdir

    folder = write_workdir(tmp_path / "run", [{"network.contact": contact} for contact in ("round", "swept")], seeds=1)
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    arrays["0/rounds_done"] = np.array([[0, 10, 12, 12, 12]], np.int32)
    np.savez(folder / "history.npz", **arrays)
    monkeypatch.setattr(playback, "BUDGET", 2 * 300)
    (folder / "report.html").write_text(page.render(read_workdir(folder)), encoding="utf-8")
    opened = open_report(folder)
    section = show_panel(opened, "map")
    assert "Links of swept are not drawn" in section.inner_text()
    opened.evaluate("window.element = document.querySelector('#map .chart')")
    texts = {}
    for at in (8, 20):
        opened.evaluate(f"element.map.goTo({at})")
        texts[at] = section.locator(".map-view .map-line").all_inner_texts()
        assert state(opened, "views[1].links.count") == 0
        assert "link" not in texts[at][1]
    assert "links" in texts[8][0]
    assert "stopped at round 12" in texts[20][0]
    assert state(opened, "views[0].links.count") == 0


@pytest.mark.long
def test_between_rounds_clients_glide_or_step(open_map, recorded):
    page, section = open_map()
    section.get_by_label("Right").select_option("3")
    places = np.load(recorded / "history.npz")["3/position"][0].astype(float)
    read = lambda: np.array(state(page, "views[1].xy")).reshape(-1, 2)  # noqa: E731
    page.evaluate("element.map.goTo(7.25)")
    np.testing.assert_allclose(read(), 0.75 * places[7] + 0.25 * places[8], atol=1e-3)
    section.get_by_label("Glide between rounds").uncheck()
    np.testing.assert_allclose(read(), places[7], atol=1e-3)


@pytest.mark.long
def test_two_points_go_in_step_and_can_be_changed(open_map):
    page, section = open_map()
    assert section.locator(".map-view").count() == 2
    section.get_by_label("Right").select_option(label="random movement")
    page.evaluate("element.map.goTo(13)")
    assert state(page, "views.map((view) => view.frame)") == [13, 13]
    assert state(page, "views.map((view) => view.point.point)") == [0, 1]
    assert section.locator(".map-view h3").all_inner_texts() == ["static", "random movement"]
    section.get_by_label("Right").select_option(label="none")
    assert section.locator(".map-view:visible").count() == 1
    assert state(page, "round") == 13


@pytest.mark.long
def test_keys(open_map):
    page, section = open_map()
    section.locator("canvas").first.focus()
    for key, expected in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", ROUNDS), ("Home", 0)):
        page.keyboard.press(key)
        assert state(page, "round") == expected
    page.keyboard.press("Space")
    assert state(page, "playing")
    page.keyboard.press("Space")
    assert not state(page, "playing")
    section.get_by_role("slider", name="Round").focus()
    page.keyboard.press("ArrowRight")
    assert state(page, "round") == 1
    page.keyboard.press("End")
    page.keyboard.press("Space")  # at the end, it starts again
    page.wait_for_function("() => element.map.time < 20")


@pytest.mark.long
def test_a_client_tells_of_itself(open_map, recorded):
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


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_one_map_under_the_other_in_both_themes(open_map, scheme):
    page, section = open_map(360, scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    first, second = (section.locator(".map-view").nth(k).bounding_box() for k in range(2))
    assert first["y"] + first["height"] <= second["y"]
    before = pixels(page)
    page.locator("#theme").click()
    assert pixels(page) != before  # the colours of the page are those of the map


@pytest.mark.long
def test_the_scale_of_the_colours_is_that_of_all_rounds_or_of_one(open_map, recorded):
    page, section = open_map()
    page.evaluate("element.map.goTo(20)")
    accuracy = [np.load(recorded / "history.npz")[f"{p}/accuracy"][0] for p in (0, 3)]  # of the two that are shown
    legend = section.locator(".map-legend")
    section.get_by_role("combobox", name="Colours").select_option("round")
    low, high = (100 * pick([pick(values[2]) for values in accuracy]) for pick in (min, max))
    assert f"test accuracy:{low:.1f} %{high:.1f} %" in legend.inner_text().replace("\n", "")
    section.get_by_role("combobox", name="Colours").select_option("study")
    everything = np.concatenate([np.load(recorded / "history.npz")[f"{p}/accuracy"][0].ravel() for p in range(4)])
    low, high = 100 * everything.min(), 100 * everything.max()
    assert f"test accuracy:{low:.1f} %{high:.1f} %" in legend.inner_text().replace("\n", "")


@pytest.mark.long
def test_switches_change_what_is_drawn(open_map):
    page, section = open_map()
    page.evaluate("element.map.goTo(12)")
    switches = section.locator(".map-row input[type=checkbox]")
    names = [switch.get_attribute("data-switch") for switch in switches.all()]
    assert names == ["links", "ranges", "trails", "goals", "meetings", "pies", "numbers", "smooth"]
    for name in names[:-1]:
        before = pixels(page, 1)
        section.locator(f"[data-switch={name}]").click()
        assert pixels(page, 1) != before, name
        section.locator(f"[data-switch={name}]").click()


@pytest.mark.long
def test_two_maps_of_two_hundred_clients_are_drawn_thirty_times_a_second(open_report, show_panel, tmp_path):
    from mdfl_jax.report.page import render
    from mdfl_jax.report.read import read_workdir

    folder = write_workdir(tmp_path / "large", clients=200, grid=60, rounds=60, radius=7.0, seeds=1)
    (folder / "report.html").write_text(render(read_workdir(add_records(folder, radius=7.0))), encoding="utf-8")
    page = open_report(folder, 1400)
    show_panel(page, "map")
    page.evaluate("window.element = document.querySelector('#map .chart')")
    draw = "element.map.goTo(10 + k / 4); return element.map.milliseconds;"
    times = page.evaluate(f"() => Array.from({{ length: 60 }}, (_, k) => {{ {draw} }})")
    assert state(page, "views.map((view) => view.links.count)[1]") > 300
    assert np.median(times) < 33  # the work of the script; other work of the machine adds to the time of a picture


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(open_map, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, _ = open_map(800, scheme)
    found = axe.Axe().run(page, context="#map").response["violations"]
    assert [fault["id"] for fault in found if fault["impact"] in ("serious", "critical")] == []
