"""Presets at three scales, and what each scale cuts."""

from mdfl_jax.config import default_config
from mdfl_jax.config.presets import Preset, cuts, preset_config, quick, shrink


def _paper():
    config = default_config()
    config.title, config.seeds, config.rounds, config.eval_every = "A study", 6, 1000, 10
    config.data.limit_train = 0
    return config


PRESETS = {"t2": Preset(_paper, {"rounds": 300, "data.limit_train": 2000}), "f3": Preset(_paper)}


def test_small_changes_what_the_preset_says_and_the_cuts_tell_it():
    small = preset_config("ours", PRESETS, "t2,scale=small")
    assert (small.name, small.title) == ("ours_t2_small", "A study (small)")
    assert sorted(cuts(small, _paper())) == [("data.limit_train", 2000, 0), ("rounds", 300, 1000)]
    assert not list(cuts(preset_config("ours", PRESETS, "f3,scale=small"), _paper()))


def test_smoke_bounds_every_preset_by_one_rule():
    smoke = preset_config("ours", PRESETS, "t2,scale=smoke")
    assert (smoke.seeds, smoke.rounds, smoke.eval_every, smoke.data.limit_train) == (2, 4, 2, 400)
    assert smoke.data.limit_test == 100  # all of them before
    tiny = _paper()
    tiny.seeds, tiny.data.limit_train, tiny.data.validation = 1, 50, 0
    shrink(tiny)
    assert (tiny.seeds, tiny.data.limit_train, tiny.data.validation) == (1, 50, 0)  # nothing grows


def test_a_quick_look_cuts_any_study_and_keeps_models_of_tokens():
    first = quick(_paper())
    assert (first.name, first.title) == (f"{_paper().name}_quick", "A study (quick)")
    assert (first.seeds, first.rounds, first.eval_every, first.model.name) == (1, 20, 5, "linear")
    assert (first.data.limit_train, first.data.limit_test) == (2000, 500)
    short = _paper()
    short.rounds, short.eval_every, short.model.name = 12, 6, "lstm"
    assert (quick(short).rounds, short.eval_every, short.model.name) == (12, 6, "lstm")
