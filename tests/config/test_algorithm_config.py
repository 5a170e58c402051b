"""The fields of the algorithm: what each algorithm takes, what is only noted, and that a study of PaME runs."""

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import LocalNumbers
from mdfl_jax.algorithms.registry import ignored_by, numbers_of, register
from mdfl_jax.config.checks import UNSET, WHY
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.study import make_study

WRONG = [
    ("dpsgd", {"compressor": "top_k"}, "algorithm.compressor is 'top_k'; dpsgd sends nothing compressed; it must be"),
    ("pame", {"local_steps": 2}, "algorithm.local_steps is 2; pame takes one gradient step a round; it must be 1"),
    ("beer", {"momentum": 0.9}, "algorithm.momentum is 0.9; beer has its step in its recursion, which knows no"),
    ("choco", {"optimizer": "adam"}, "algorithm.optimizer is 'adam'; choco has its step in its recursion; it must"),
    ("anq_nids", {"local_steps": 5}, "algorithm.local_steps is 5; anq_nids takes one"),
    ("beer", {"compressor": "topk"}, "unknown compressor 'topk' (did you mean 'top_k'?); known: anq, gaussian_noise"),
    ("pame", {"period_min": 5, "period_max": 4}, "algorithm.period_min is 5; it must be at most algorithm.period_max,"),
    ("pame", {"period_min": 8}, "period_min is 8; it must be at most algorithm.period_max, which is 7 (pame's own)"),
]


def of(tiny, name, **fields):
    return tiny(**{"algorithm.name": name, **{f"algorithm.{field}": value for field, value in fields.items()}})


@pytest.mark.parametrize(("name", "fields", "expected"), WRONG)
def test_a_wrong_setting_is_told_in_one_line(tiny, name, fields, expected):
    with pytest.raises(UserError) as caught:
        resolve(of(tiny, name, **fields))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_algorithms_ignore_are_fields_that_have_a_reason():
    for name in ALGORITHMS:
        assert ignored_by(name) <= set(WHY) == set(UNSET), name


class NumbersOfMine(LocalNumbers):
    rho: float = number(0.5, "of mine", at_least=0)


@pytest.mark.usefixtures("unregistered")
def test_an_algorithm_listed_without_a_word_takes_everything(tiny):
    ALGORITHMS.register("of_my_own")(ALGORITHMS["dpsgd"])
    resolve(of(tiny, "of_my_own", compressor="top_k", momentum=0.9))
    register("of_mine_too", NumbersOfMine, ignores=("momentum",))(ALGORITHMS["dpsgd"])
    assert numbers_of("of_mine_too").rho == 0.5
    with pytest.raises(UserError, match="of_mine_too has its step"):
        resolve(of(tiny, "of_mine_too", compressor="top_k", momentum=0.9))


@pytest.mark.long
def test_a_study_of_pame_counts_its_sparse_messages(tiny, tmp_path):
    config = of(tiny, "pame", transmission=0.1, period_min=1, period_max=2, participation=1.0)
    study = make_study(config)
    num_params = study.groups[0].simulation.num_params
    kept = -(-num_params // 10)
    assert study.groups[0].double_bits(0) == 63 * kept + num_params
    run_study(study, tmp_path / "run")
    history = np.load(tmp_path / "run" / "history.npz")
    messages = history["0/messages"][:, -1].astype(float)
    assert messages.sum() > 0
    bits = history["0/bits_sent"][:, -1]
    np.testing.assert_allclose(bits, messages * (32 * kept + min(num_params, kept * (num_params - 1).bit_length())))
