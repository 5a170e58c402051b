"""The playback map in a browser: it plays, pauses and scrubs, by mouse and by keyboard, and tells of a client."""

import numpy as np
import pytest

from tests.report.browser.pages import by_axe, fits, of_map, pixels

ROUNDS = 40


def test_it_plays_pauses_and_scrubs(open_map):
    page, section = open_map()
    assert (of_map(page, "round"), of_map(page, "playing")) == (0, False)  # it never plays of itself
    line = section.locator(".map-line").first
    assert line.inner_text().startswith(f"Round 0 of {ROUNDS}")
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


@pytest.mark.long
def test_between_rounds_clients_glide_or_step(open_map, recorded):
    page, section = open_map()
    section.get_by_label("Right").select_option("3")
    places = np.load(recorded / "history.npz")["3/position"][0].astype(float)
    read = lambda: np.array(of_map(page, "views[1].xy")).reshape(-1, 2)  # noqa: E731
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
    assert of_map(page, "views.map((view) => view.frame)") == [13, 13]
    assert of_map(page, "views.map((view) => view.point.point)") == [0, 1]
    assert section.locator(".map-view h3").all_inner_texts() == ["static", "random movement"]
    section.get_by_label("Right").select_option(label="none")
    assert section.locator(".map-view:visible").count() == 1
    assert of_map(page, "round") == 13


@pytest.mark.long
def test_keys(open_map):
    page, section = open_map()
    section.locator("canvas").first.focus()
    for key, expected in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", ROUNDS), ("Home", 0)):
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
    assert fits(page)
    first, second = (section.locator(".map-view").nth(k).bounding_box() for k in range(2))
    assert first["y"] + first["height"] <= second["y"]
    before = pixels(page)
    page.locator("#theme").click()
    assert pixels(page) != before  # the colours of the page are those of the map


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(open_map, scheme):
    pytest.importorskip("axe_playwright_python")
    page, _ = open_map(800, scheme)
    assert by_axe(page, "#map") == {}
