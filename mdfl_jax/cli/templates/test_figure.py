"""Tests of my_name.py: python -m pytest test_my_name.py"""

from types import SimpleNamespace

import my_name


def test_a_bar_for_each_point():
    points = [{"id": "static", "bits_sent_per_client": 2e6}, {"id": "dcm", "bits_sent_per_client": 5e6}]
    drawn = my_name.my_name(SimpleNamespace(points=points))
    (axes,) = drawn.axes
    assert [bar.get_width() for bar in axes.patches] == [2.0, 5.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["static", "dcm"]
