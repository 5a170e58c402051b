"""FedMobile: nothing is lost or delivered twice, over random schedules. The reference has its rules, slot by slot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.relay import best_share

N, SLOTS = 6, 40
VARIANTS = ("fedmobile", "fedmobile_u", "fedmobile_d", "fedmobile_local", "fedmobile_auto", "async_fl",
            "virtual_upload", "virtual_download", "virtual_download_once")  # fmt: skip
NEVER = 2**30


def random_schedule(rng, slots=SLOTS, longest=9, rate=0.7):
    """Random meetings and pairs: [T, N] at_server, last, next, partner."""
    meets = np.zeros((slots, N), bool)
    for i in range(N):
        gaps = [rng.integers(0, longest), *rng.integers(1, longest + 1, slots)]
        meets[[t for t in np.cumsum(gaps) if t < slots], i] = True
    last, following = np.full((slots, N), -1), np.full((slots, N), NEVER)
    for t, i in np.ndindex(slots, N):
        met = np.flatnonzero(meets[:, i])
        last[t, i] = max([m for m in met if m <= t], default=-1)
        following[t, i] = min([m for m in met if m > t], default=NEVER)
    partner = np.tile(np.arange(N), (slots, 1))
    for t in range(slots):
        order = rng.permutation(N)
        for a, b in zip(order[::2], order[1::2]):
            if rng.random() < rate:
                partner[t, a], partner[t, b] = b, a
    return meets, last.astype(np.int32), following.astype(np.int32), partner.astype(np.int32)


def numbers(name, k, lr, compressor="", **others):
    window = {"upload_from": 0, "upload_until": 9, "download_from": 0, "download_until": 9}
    most = {"max_upload": k, "max_download": k, "download_after": 2 * k}
    return resolved(name, compressor, {"lr": lr, **window, **most, **others}).traced()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", VARIANTS)
def test_no_step_is_delivered_twice(name):
    """Every step has a coordinate of its own: what the server has of it is 0 or 1, and what is missing is held once."""
    slots, size = 24, 24 * N

    @jax.jit
    def whole(hparams, slots):
        algorithm = ALGORITHMS[name](Settings(sgd(momentum=False)))

        def step(state, slot):
            t, meets, last, following, partner = slot
            links = Links(partner[:, None] == jnp.arange(N), jnp.eye(N), meets, last, following, partner)
            mark = jax.nn.one_hot(t * N + jnp.arange(N), size)
            context = RoundContext(jax.random.key(0), lambda p, k: (jnp.zeros(N), mark))
            state, _ = algorithm.round(hparams, state, links, context)
            return state, (state.server, state.held)

        return jax.lax.scan(step, algorithm.init(hparams, jnp.zeros((N, size))), slots)[1]

    delivered_late = 0
    for seed in range(10):
        schedule = random_schedule(np.random.default_rng(seed), slots=slots)
        hparams = numbers(name, 1 + seed % 3, 1.0)
        server, held = whole(hparams, (np.arange(slots, dtype=np.int32), *schedule))
        delivered, kept = -N * np.asarray(server[:, 0]), np.asarray(held)
        assert np.allclose(np.minimum(abs(delivered), abs(delivered - 1)), 0, atol=1e-5)
        assert np.isin(kept, (0, 1)).all()
        made = np.repeat(np.arange(slots), N)[None] <= np.arange(slots)[:, None]
        np.testing.assert_allclose(delivered + kept.sum(axis=1), made, atol=1e-5)
        assert (np.diff(np.round(delivered), axis=0) >= 0).all()  # the server never gives back
        delivered_late += (kept.sum(axis=2) > 9).sum()
    if name == "fedmobile_u":
        assert delivered_late > 0  # some hold more than they can have made: they carry for others


@pytest.mark.parametrize("k", [1e-2, 0.3, 1.0, 5.0, 25.0, 200.0, 1e4])
def test_the_automatic_share_is_the_best_on_a_grid(k):
    """The least mean bound Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2 over all shares."""
    u = np.linspace(0, 1, 20_001)
    bound = 1 - (1 - np.exp(-k * u**2)) * (1 - u) / 2
    assert abs(float(best_share(k)) - u[np.argmin(bound)]) < 2e-3
