"""Statistics of contacts against slow loops, and the panel that shows them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.contrib.panels import contacts as of
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.results import Results
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
def test_groups_degrees_lengths_and_windows_are_those_of_slow_loops(contact):
    assert of.count_components(contact).tolist() == [groups(graph) for graph in contact]
    expected = [np.mean([sum(row) for row in graph.tolist()]) for graph in contact]
    np.testing.assert_allclose(of.mean_degrees(contact), expected)
    (rounds, clients), lengths = contact.shape[:2], {True: [], False: []}
    for i, j in itertools.combinations(range(clients), 2):
        for value, length, cut in runs_of(contact[:, i, j].tolist()):
            if not cut:
                lengths[value].append(length)
    found = of.measure_spells(contact)
    assert sorted(found.contacts.tolist()) == sorted(lengths[True])
    assert sorted(found.gaps.tolist()) == sorted(lengths[False])
    x, share = of.at_least(found.gaps)
    assert x.tolist() == sorted(set(lengths[False]))
    assert share.tolist() == pytest.approx([np.mean([one >= least for one in lengths[False]]) for least in x])
    connects = lambda begin, end: groups(contact[begin : end + 1].any(axis=0)) == 1  # noqa: E731
    shortest = [next((b for b in range(1, e + 2) if connects(e + 1 - b, e)), 0) for e in range(rounds)]
    windows, lengths = of.shortest_windows(contact), np.arange(1, rounds + 1)
    assert windows.tolist() == shortest
    shares = [np.mean([connects(e + 1 - b, e) for e in range(b - 1, rounds)]) for b in lengths]
    np.testing.assert_allclose(of.share_connected(windows, lengths), shares)
    assert of.sure_length(windows) == next((b for b, share in zip(lengths, shares) if share == 1), None)


def test_the_panel_shows_a_line_for_each_different_network(tmp_path):
    run = Results.read(add_records(write_workdir(tmp_path / "run"), radius=4.0, one_way=True)).shown()
    contact, links = of.recorded_contacts(run, 3).contact, run.history(3, "links")[0]
    hears = np.unpackbits(links, axis=2, count=8).astype(bool)
    np.testing.assert_array_equal(contact, hears | hears.transpose(0, 2, 1))  # a link of either direction
    panels = {panel["title"]: panel for panel in FIGURES["contacts"].chart(run).data["panels"]}
    lines = panels["Separate groups"]["traces"]
    assert [line["name"] for line in lines] == ["static", "random movement", "dam", "dcm"]
    np.testing.assert_allclose(lines[3]["y"], [groups(graph) for graph in contact])
    assert f"dcm: {contact.sum(axis=2).mean():.1f} and " in FIGURES["contacts"].caption(run)
    assert [axes.get_title() for axes in of.contacts(run).axes if axes.get_visible()] == list(panels)
