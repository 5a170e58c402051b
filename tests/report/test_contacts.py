"""Statistics of contacts against slow loops, and the panel that shows them."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.report.panels import contacts as of
from mdfl_jax.report.panels.map import playback
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from tests.report.conftest import write_workdir
from tests.report.made_report import add_records


@st.composite
def contact_arrays(draw):
    """[R, N, N] bool, symmetric, without contacts with oneself; often so sparse that windows must be long."""
    rounds, clients = draw(st.integers(1, 14)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    upper = np.triu(rng.random((rounds, clients, clients)) < draw(st.sampled_from([0.05, 0.2, 0.5])), 1)
    return upper | upper.transpose(0, 2, 1)


def groups(graph):
    """The connected components of a graph [N, N], by walking from client to client."""
    left, found = set(range(len(graph))), 0
    while left:
        found, todo = found + 1, [left.pop()]
        while todo:
            i = todo.pop()
            near = {j for j in left if graph[i, j]}
            left -= near
            todo += near
    return found


def runs_of(series):
    """(value, length, touches an end) of each run of equal values of a series."""
    found, begin = [], 0
    for t in range(1, len(series) + 1):
        if t == len(series) or series[t] != series[begin]:
            found.append((bool(series[begin]), t - begin, begin == 0 or t == len(series)))
            begin = t
    return found


@settings(deadline=None, max_examples=60)
@given(contact_arrays())
def test_groups_and_degrees_of_each_round(contact):
    assert of.count_components(contact).tolist() == [groups(graph) for graph in contact]
    expected = [np.mean([sum(row) for row in graph.tolist()]) for graph in contact]
    np.testing.assert_allclose(of.mean_degrees(contact), expected)


@settings(deadline=None, max_examples=60)
@given(contact_arrays())
def test_lengths_of_contacts_and_gaps(contact):
    clients, lengths = contact.shape[1], {True: [], False: []}
    for i in range(clients):
        for j in range(i + 1, clients):
            for value, length, cut in runs_of(contact[:, i, j].tolist()):
                if not cut:
                    lengths[value].append(length)
    found = of.measure_spells(contact)
    assert sorted(found.contacts.tolist()) == sorted(lengths[True])
    assert sorted(found.gaps.tolist()) == sorted(lengths[False])
    x, share = of.at_least(found.gaps)
    assert x.tolist() == sorted(set(lengths[False]))
    assert share.tolist() == pytest.approx([np.mean([one >= least for one in lengths[False]]) for least in x])


@settings(deadline=None, max_examples=60)
@given(contact_arrays())
def test_windows_that_connect_everybody(contact):
    rounds = len(contact)
    connects = lambda begin, end: groups(contact[begin : end + 1].any(axis=0)) == 1  # noqa: E731
    shortest = [next((b for b in range(1, e + 2) if connects(e + 1 - b, e)), 0) for e in range(rounds)]
    windows = of.shortest_windows(contact)
    assert windows.tolist() == shortest
    lengths = np.arange(1, rounds + 1)
    shares = [np.mean([connects(e + 1 - b, e) for e in range(b - 1, rounds)]) for b in lengths]
    np.testing.assert_allclose(of.share_connected(windows, lengths), shares)
    assert of.sure_length(windows) == next((b for b, share in zip(lengths, shares) if share == 1), None)


@pytest.fixture
def run(tmp_path):
    return read_workdir(add_records(write_workdir(tmp_path / "run"), radius=4.0, one_way=True))


def test_a_contact_is_a_link_of_either_direction(run):
    contact, links = of.recorded_contacts(run, 1).contact, run.history(1, "links")[0]
    for t in (0, 7):
        for i in range(8):
            for j in range(8):
                hears = [bool(links[t, a, b // 8] >> (7 - b % 8) & 1) for a, b in ((i, j), (j, i))]
                assert contact[t, i, j] == any(hears)


def test_the_panel_shows_a_line_for_each_different_network(run):
    panels = {panel["title"]: panel for panel in FIGURES["contacts"].chart(run).data["panels"]}
    assert list(panels) == [view.title for view in of.VIEWS if view.key not in ("lambda_2", "heard")]
    lines = panels["Separate groups"]["traces"]
    assert [line["name"] for line in lines] == ["static", "random movement", "dam", "dcm"]
    contact = of.recorded_contacts(run, 3).contact
    np.testing.assert_allclose(lines[3]["y"], [groups(graph) for graph in contact])
    assert lines[3]["x"].tolist() == list(range(1, 41))
    caption = FIGURES["contacts"].caption(run)
    assert f"dcm: {contact.sum(axis=2).mean():.1f} and " in caption
    assert len(re.findall(r"\.(?= |$)", caption)) == 2  # sentences
    figure = of.contacts(run)
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == list(panels)


def test_points_with_the_same_contacts_share_a_line(tmp_path):
    folder = add_records(write_workdir(tmp_path / "run", [{"algorithm.lr": lr} for lr in (0.1, 0.2, 0.4)]))
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    np.savez(folder / "history.npz", **arrays | {"1/links": arrays["0/links"]})
    assert [line.label for line in of.measured(read_workdir(folder)).lines] == ["lr = 0.1 and 1 more", "lr = 0.4"]
    np.savez(folder / "history.npz", **arrays | {f"{p}/links": arrays["0/links"] for p in (1, 2)})
    assert [line.label for line in of.measured(read_workdir(folder)).lines] == ["all sweep points"]


def test_rounds_after_the_stop_are_no_rounds_without_contacts(tmp_path):
    """The first seed of the second point has stopped after 12 of 40 rounds; the rows after them are filled up."""
    folder = add_records(write_workdir(tmp_path / "run", [{"algorithm.lr": lr} for lr in (0.1, 0.2)]), radius=4.0)
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    arrays["1/links"][0, 12:] = 0
    for p, done in enumerate((40, 12)):
        arrays[f"{p}/rounds_done"] = np.minimum(np.arange(0, 41, 10), [[done], [40], [40]]).astype(np.int32)
    np.savez(folder / "history.npz", **arrays)
    run = read_workdir(folder)
    contact = of.recorded_contacts(run, 1).contact
    assert (len(of.recorded_contacts(run, 0).contact), len(contact)) == (40, 12)
    _, second = of.measured(run).lines
    np.testing.assert_allclose(second.typical["degree"], contact.sum(axis=2).mean())
    assert second.found["components"][0].tolist() == list(range(1, 13))
    assert "without the rounds after the stop rule has ended a run" in FIGURES["contacts"].caption(run)
    assert [point["stopped"] for point in playback(run)["points"]] == [None, 12]


def test_models_travel_by_what_is_heard_and_contacts_are_those_in_range(tmp_path):
    """Of a point that hears in every fifth round only, windows and groups follow the record of what was heard."""
    folder = add_records(write_workdir(tmp_path / "run"), radius=4.0)
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    turn = np.arange(40) % 5 == 0
    arrays["1/heard"] = np.where(turn[:, None, None], arrays["1/links"], 0).astype(np.uint8)
    np.savez(folder / "history.npz", **arrays)
    run = read_workdir(folder)
    found = of.recorded_contacts(run, 1)
    np.testing.assert_array_equal(found.exchange, found.contact & turn[:, None, None])
    lines = {line.point: line.found for line in of.measured(run).lines}
    np.testing.assert_allclose(lines[1]["degree"][1], of.mean_degrees(found.contact))
    np.testing.assert_allclose(lines[1]["heard"][1], of.mean_degrees(found.contact) * turn)
    np.testing.assert_allclose(lines[1]["components"][1], np.where(turn, of.count_components(found.contact), 8))
    assert "heard" not in lines[0]
    shown = next(point for point in playback(run)["points"] if point["point"] == 1)
    bits = np.unpackbits(shown["links"]["bits"], axis=1)
    assert not (np.bitwise_xor.accumulate(bits) if shown["links"]["changes"] else bits)[~turn].any()
