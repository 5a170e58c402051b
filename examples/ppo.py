"""Train a policy for mobile clients by PPO, and compare it with the rules of the arena over unseen seeds.

Command:   python -m examples.ppo [--updates=120] [--reward=waiting] [--seeds=20]

It is PPO (Schulman et al., "Proximal policy optimization algorithms", 2017) in the manner of PureJaxRL: environments,
policy and updates are one compiled function. Each mobile client is an agent of the same policy, which scores the points
of the map one by one by what the client knows of them, and all agents share the reward of `mdfl_jax.environment`. The
trained policy goes to where its score is highest. So it is a strategy as any other, and a study compares it with them.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mdfl_jax
from configs import arena
from mdfl_jax.contrib.strategies.learnt import features
from mdfl_jax.mobility import Sight, best, strategy
from mdfl_jax.results.statistics import difference

ENVS, STEPS, EPOCHS, MINIBATCHES = 16, 64, 4, 4
RATE, DISCOUNT, LAMBDA, CLIP, ENTROPY, SCALE = 3e-3, 0.9, 0.9, 0.2, 0.003, 0.02  # SCALE of the rewards
RIVALS = ("dcm", "waiting", "learnt", "random_movement")


def study(rounds: int = 150, **changes: Any) -> Any:
    """Return the middle setting of the arena (M 3, Rc 2, Rm 5, alpha 0.05) with a linear model."""
    config = arena.get_config("centre,rules=dcm")
    config.model.name, config.rounds, config.sweep, config.baseline = "linear", rounds, "", ""
    config.update_from_flattened_dict(changes)
    return config


class Policy(nn.Module):
    """Scores of points, and the value of a state to an agent."""

    @nn.compact
    def __call__(self, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the score of each point [..., K] and the value [...] of what an agent sees, [..., K, F]."""
        hidden = nn.tanh(nn.Dense(16)(seen))
        score = nn.Dense(1, kernel_init=nn.initializers.orthogonal(0.01))(hidden)
        state = jnp.concatenate([seen.mean(axis=-2), seen.max(axis=-2)], axis=-1)
        value = nn.Dense(1)(nn.tanh(nn.Dense(32)(state)))
        return score[..., 0], value[..., 0]


class Transition(NamedTuple):
    """A step of all environments: leaves [E, A, ...]."""

    seen: jax.Array
    mask: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


def act(params: Any, seen: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the logarithms of the probabilities of points, [..., K], and the values, [...]."""
    found: Any = Policy().apply(params, seen)  # flax declares more types than come
    score, value = found
    return jax.nn.log_softmax(jnp.where(mask, score, -1e9)), value


def advantages(steps: Transition, last: jax.Array) -> jax.Array:
    """Return the generalized advantages [T, E, A] (Schulman et al., 2016)."""

    def back(carry: tuple[jax.Array, jax.Array], step: Transition) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        later, value = carry
        goes_on = DISCOUNT * (1 - step.done)
        found = step.reward + goes_on * value - step.value + goes_on * LAMBDA * later
        return (found, step.value), found

    return jax.lax.scan(back, (jnp.zeros_like(last), last), steps, reverse=True)[1]


def loss_of(params: Any, batch: tuple[Transition, jax.Array, jax.Array]) -> jax.Array:
    """Return the loss of PPO: the clipped objective, the error of the values, and a bonus for entropy."""
    steps, gain, target = batch
    log_probs, value = act(params, steps.seen, steps.mask)
    log_prob = jnp.take_along_axis(log_probs, steps.action[..., None], axis=-1)[..., 0]
    ratio, gain = jnp.exp(log_prob - steps.log_prob), (gain - gain.mean()) / (gain.std() + 1e-8)
    chosen = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
    return -chosen.mean() + 0.5 * jnp.square(value - target).mean() - ENTROPY * entropy.mean()


def make_update(env: Any, env_params: Any, optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    """Return (runner, None) -> (runner, mean reward): `STEPS` steps of all environments, and what is learnt of them."""

    def play(carry: Any, _: None) -> tuple[Any, Transition]:
        params, obs, state, key = carry
        key, key_act, key_step = jax.random.split(key, 3)
        log_probs, value = act(params, *obs)
        action = jax.random.categorical(key_act, log_probs)
        keys = jax.random.split(key_step, ENVS)
        after, state, reward, done, _ = jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, env_params)
        log_prob = jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
        shared, ends = (jnp.broadcast_to(x[:, None], value.shape) for x in (SCALE * reward, done.astype(jnp.float32)))
        step = Transition(obs.seen, obs.action_mask, action, log_prob, value, shared, ends)
        return (params, after, state, key), step

    def learn(carry: Any, batch: Any) -> tuple[Any, None]:
        params, moments = carry
        moved, moments = optimizer.update(jax.grad(loss_of)(params, batch), moments)
        return (optax.apply_updates(params, moved), moments), None

    def update(runner: Any, _: None) -> tuple[Any, jax.Array]:
        params, moments, obs, state, key = runner
        (_, obs, state, key), steps = jax.lax.scan(play, (params, obs, state, key), None, length=STEPS)
        gain = advantages(steps, act(params, *obs)[1])
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (steps, gain, gain + steps.value))

        def epoch(carry: Any, key: jax.Array) -> tuple[Any, None]:
            order = jax.random.permutation(key, ENVS * STEPS).reshape(MINIBATCHES, -1)
            return jax.lax.scan(lambda c, index: learn(c, jax.tree.map(lambda x: x[index], rows)), carry, order)

        key, key_epochs = jax.random.split(key)
        (params, moments), _ = jax.lax.scan(epoch, (params, moments), jax.random.split(key_epochs, EPOCHS))
        return (params, moments, obs, state, key), steps.reward.mean() / SCALE

    return update


def train(config: Any, reward: str, updates: int, seed: int = 0, log: Callable[[str], None] = print) -> Any:
    """Return the parameters of a trained policy."""
    env, env_params = mdfl_jax.environment(config, reward)
    key, key_policy, key_envs = jax.random.split(jax.random.key(seed), 3)
    obs, state = jax.jit(jax.vmap(env.reset, (0, None)))(jax.random.split(key_envs, ENVS), env_params)
    params = Policy().init(key_policy, obs.seen)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(optax.linear_schedule(RATE, 0.0, updates * 16)))
    runner, update = (params, optimizer.init(params), obs, state, key), jax.jit(make_update(env, env_params, optimizer))
    for done in range(updates):
        runner, mean = update(runner, None)
        if (done + 1) % 10 == 0 or done + 1 == updates:
            log(f"update {done + 1}: mean reward {float(mean):.4f}")
    return runner[0]


def enter(params: Any) -> None:
    """Register the policy as the strategy ``ppo``, which goes to where its score is highest."""
    params = jax.tree.map(np.asarray, params)

    @strategy("ppo", formula="argmax over L of score(f(L))", everywhere=True, replans=True)
    def ppo(key: jax.Array, sight: Sight) -> jax.Array:
        """Go to the point that a policy scores highest, which PPO has trained."""
        return best(key, Policy().apply(params, features(sight))[0], sight)


def compare(config: Any, rivals: Sequence[str], seeds: int, first_seed: int = 100) -> list[str]:
    """Return a line for each rule: its accuracy in per cent at the end, and how far ``ppo`` is ahead of it by seed."""
    config.sweep, config.seeds, config.first_seed = f"network.mobility={','.join((*rivals, 'ppo'))}", seeds, first_seed
    config.eval_every = config.rounds
    results = mdfl_jax.run(config, progress=False)
    last = {rule: 100 * results.array("accuracy", rule)[:, -1].mean(axis=1) for rule in (*rivals, "ppo")}
    lines = [f"ppo: {last['ppo'].mean():.1f}"]
    for rule in rivals:
        found = difference(dict(enumerate(last["ppo"])), dict(enumerate(last[rule])))
        lines.append(f"{rule}: {last[rule].mean():.1f}; ppo over it: {found['mean']:+.1f} ± {found['ci95'] or 0:.1f}")
    return lines


def main() -> None:
    """Train and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--reward", default="waiting")
    parser.add_argument("--seeds", type=int, default=20)
    told = parser.parse_args()
    enter(train(study(eval_every=1), told.reward, told.updates))
    print("\n".join(compare(study(), RIVALS, told.seeds)))


if __name__ == "__main__":
    main()
