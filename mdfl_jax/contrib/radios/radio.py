"""A radio as a link filter: links in outage are removed, and the others get a rate.

The signal of a pair of clients has the same strength in both directions, so both hear each other or neither does. In
decibel the signal-to-noise ratio of two clients at the distance d is

    SNR = power - loss(d) - shadowing + 10 log10(gain of the fading) - noise

A path loss that grows with the distance gives each pair a radius of its own in a round: the distance at which the SNR
falls below the threshold. So all that is known of discs (`mdfl_jax.networks.contact`) holds for radios: the contacts of
a movement and their durations are exact. The radius of the clients remains as a bound: nobody is heard beyond it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.contrib.radios.shadowing import Waves, draw_waves, shadowing
from mdfl_jax.core.geometry import squared_reach
from mdfl_jax.core.links import ALL_PAIRS, Senders, carried, no_senders
from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import number_of, stream
from mdfl_jax.core.section import Family, Rule, Section, field, section, switch
from mdfl_jax.core.types import Clients, Extra
from mdfl_jax.metrics.over_clients import mean_of_known
from mdfl_jax.mobility.registry import world_in
from mdfl_jax.networks.contact import Met, link_radius
from mdfl_jax.networks.costs import sends_without_rate
from mdfl_jax.networks.link_filters import LinkFilter

HOME = "radios"
# These numbers are folded into the key of the stream "link", from which the links of each round are drawn, too.
SHADOWING, HEIGHTS = number_of("shadowing"), number_of("heights")


class SignalNumbers(Numbers):
    """The numbers of a signal besides those of its path loss, in decibel and metres.

    The noise is that of 10 MHz, -174 dBm/Hz + 70 dB, with a noise figure of 9 dB.
    """

    power: float = number(23.0, "power that clients send with, antennas included", unit="dBm")
    noise: float = number(-95.0, "noise of a receiver in its channel", unit="dBm")
    threshold: float = number(5.0, "signal-to-noise ratio below which a link is in outage", unit="dB")
    shadowing: float = number(0.0, "standard deviation of the shadowing; 0: none", unit="dB", at_least=0)
    shadowing_distance: float = number(
        25.0,
        "distance that a client moves until the shadowing's correlation is 1 / e",
        unit="m",
        above=0,
        part="shadowing",
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Outages(Extra):
    """The links of a round that a radio leaves out.

    Attributes:
      in_radius: [N, K] bool, the senders within a client's radius.
      are: [N, K] bool, those of them that are in outage.
    """

    in_radius: jax.Array
    are: jax.Array

    def among(self, kept: jax.Array, clients: jax.Array) -> "Outages":
        """Return those of the links that are left."""
        return Outages(self.in_radius & kept, self.are & kept)


class PathLoss(NamedTuple):
    """How much weaker a signal is at a distance, in decibel.

    Attributes:
      loss: (numbers, distance in metres) -> dB, which does not fall with the distance.
      reach: (numbers, dB) -> the largest distance in metres with at most this loss, 0 for none.
      heights: (numbers, uniform draws [N], [N] bool the mobile clients, [N] heights of a trace or None) -> [N] the
        heights of the clients in metres; ``loss`` and ``reach`` then have two more arguments, the heights of the two
        clients. None: there are none.
      drawn: the numbers that only draw heights, which those of a trace replace.
    """

    loss: Callable[..., jax.Array]
    reach: Callable[..., jax.Array]
    heights: Callable[[Any, jax.Array, jax.Array, jax.Array | None], jax.Array] | None = None
    drawn: tuple[str, ...] = ()


class Rate(NamedTuple):
    """How many bits a second a link carries.

    Attributes:
      bits: (numbers, SNR in dB) -> bits per second.
      least: (numbers) -> the SNR in dB below which nothing arrives.
    """

    bits: Callable[[Any, jax.Array], jax.Array]
    least: Callable[[Any], Any]


class Sharing(NamedTuple):
    """How the senders within range of each other share the channel.

    Attributes:
      share: (numbers, heard [N, K] bool, senders) -> the share of the time that each sender sends, [N, K] or [].
      heard_too: (numbers) -> the share of the time for which the others' signals add to the noise; None: they do not.
    """

    share: Callable[[Any, jax.Array, Senders], jax.Array]
    heard_too: Callable[[Any], Any] | None = None


# (numbers, draw) -> the gain of the fading [N, K], whose mean is one; draw(k) is the k-th uniform draw of each pair.
Fading = Callable[[Any, Callable[[jax.Array | int], jax.Array]], jax.Array]
RADIOS: Registry[PathLoss | None] = Registry("radio", contrib=HOME)
FADINGS: Registry[Fading] = Registry("fading", contrib=HOME)
RATES: Registry[Rate] = Registry("rate", contrib=HOME)
SHARINGS: Registry[Sharing] = Registry("sharing", contrib=HOME)


class RadioParams(NamedTuple):
    """Traced numbers of a radio: those of its members (None where it has none), and those of its bursts.

    Attributes:
      signal: the numbers of the path loss (`SignalNumbers`).
      fading: the numbers of the fading.
      rate: the numbers of the rate.
      sharing: the numbers of the sharing.
      burst: the probability that a burst begins between two clients after a round.
      burst_end: the probability that it ends after a round.
      bandwidth: bits per second of all links where no rate is in use.
    """

    signal: Any = None
    fading: Any = None
    rate: Any = None
    sharing: Any = None
    burst: Any = 0.0
    burst_end: Any = 1.0
    bandwidth: Any = jnp.inf


class Burst(NamedTuple):
    """The states of the pairs that are within range, good or bad, a Markov chain over the rounds.

    This is the channel of Gilbert (1960) and Elliott (1963), a round at a time: in the bad state nothing arrives. The
    chain of a pair begins in its stationary distribution when the two clients come within range, so neither form of the
    links must remember all pairs.

    Attributes:
      known: [N, K] int32, 0 where the two were not within range in the last round, 1 in a good and 2 in a bad state.
      ids: [N, K] int32, the clients of the places (`mdfl_jax.core.links.Senders.ids`); None in the dense form.
    """

    known: jax.Array
    ids: jax.Array | None

    @property
    def under_way(self) -> jax.Array:
        """[N, K] bool, the pairs in a burst."""
        return self.known == 2


def no_bursts(num_clients: int, places: int) -> Burst:
    """Return the state before the first round; ``places`` is K of neighbour lists, 0 if links are matrices."""
    ids = no_senders(num_clients, places).ids if places else None
    return Burst(jnp.zeros((num_clients, places or num_clients), jnp.int32), ids)


def after_a_round(begin: jax.Array, end: jax.Array, bursts: Burst, met: Met, draws: jax.Array) -> Burst:
    """Return the states in the next round.

    Args:
      begin: [] the probability that a burst begins after a round.
      end: [] the probability that it ends.
      bursts: the states in the round before.
      met: who is within range.
      draws: [N, K] uniform draws of the pairs, the same in both directions.
    """
    before = bursts.known if bursts.ids is None else carried(bursts.ids, bursts.known, met.senders)
    stationary = begin / jnp.maximum(begin + end, jnp.finfo(jnp.float32).tiny)
    chance = jnp.stack([stationary, jnp.asarray(begin), 1 - jnp.asarray(end)])[before]
    now = jnp.where(draws < chance, 2, 1)
    return Burst(jnp.where(met.heard, now, 0).astype(jnp.int32), met.senders.ids)


class RadioState(NamedTuple):
    """The state of a radio: None where it has no such part.

    Attributes:
      waves: those of the shadowing.
      bursts: which pairs are in a burst.
      drawn: [N] uniform draws that decide the heights.
    """

    waves: Waves | None
    bursts: Burst | None
    drawn: jax.Array | None = None


class RadioParts(NamedTuple):
    """The parts of a radio by name, and whether it has shadowing and bursts; "": the part is missing."""

    radio: str = "disc"
    fading: str = ""
    rate: str = ""
    sharing: str = ""
    shadowed: bool = False
    bursts: bool = False


def decibel(ratio: jax.Array) -> jax.Array:
    """Return a ratio of powers in decibel."""
    return 10 * jnp.log10(ratio)


def ratio_of(decibels: jax.Array) -> jax.Array:
    """Return a ratio of powers that is given in decibel."""
    return 10 ** (decibels / 10)


def least_snr(parts: RadioParts, params: RadioParams) -> float:
    """Return the SNR in dB below which the rate of a link is 0; minus infinity for none."""
    return RATES[parts.rate].least(params.rate) if parts.rate else -jnp.inf


def reach_alone(parts: RadioParts, params: RadioParams) -> float:
    """Return how far a signal reaches without shadowing, fading and other senders, in metres.

    It is 0 without a signal, and where heights decide it, which a seed or a trace draws.
    """
    path_loss, signal = RADIOS[parts.radio], params.signal
    if path_loss is None or path_loss.heights is not None:
        return 0.0
    least = max(signal.threshold, least_snr(parts, params))
    return float(path_loss.reach(signal, jnp.asarray(signal.power - signal.noise - least)))


def _losses(path_loss: PathLoss, signal: Any, distance: float) -> jax.Array:
    """Return the path losses in dB at a distance, of clients in the air and on the ground, where heights count."""
    tall: tuple[jax.Array, ...] = ()
    if path_loss.heights is not None:
        traced = jnp.array([jnp.nan, jnp.nan, 0.0])
        height = path_loss.heights(signal, jnp.full(3, 0.5), jnp.array([True, False, False]), traced)
        tall = (height[:, None], height)
    return path_loss.loss(signal, jnp.float32(distance), *tall)


def hears_nobody(parts: RadioParts, params: RadioParams, radius: float) -> str:
    """Say why no signal reaches a hundredth of the radius, without shadowing and fading; "" if one does."""
    path_loss, signal = RADIOS[parts.radio], params.signal
    if path_loss is None:
        return ""
    near, least = radius / 100 if math.isfinite(radius) else 1.0, max(signal.threshold, least_snr(parts, params))
    lost, left = float(jnp.min(_losses(path_loss, signal, near))), float(signal.power - signal.noise - least)
    if left >= lost:
        return ""
    given = f"a power of {signal.power:g} dBm, a noise of {signal.noise:g} dBm and an SNR of {least:g} dB"
    return f"hardly anybody hears anybody: {given} allow a loss of {left:g} dB, and it is {lost:.4g} dB at {near:g} m"


def best_rate(parts: RadioParts, params: RadioParams) -> float:
    """Return the most bits per second of a link without shadowing and fading: of two clients at one place, alone.

    Both are in the air or both on the ground, where a trace may have any client.
    """
    path_loss, signal, best, alone = RADIOS[parts.radio], params.signal, params.bandwidth, ~jnp.eye(2, dtype=bool)
    if parts.rate and path_loss:
        least = jnp.min(_losses(path_loss, signal, 0.0))
        best = RATES[parts.rate].bits(params.rate, signal.power - least - signal.noise)
    share = SHARINGS[parts.sharing].share(params.sharing, alone, ALL_PAIRS) if parts.sharing else 1
    return float(best * jnp.max(jnp.asarray(share)))


def radio(parts: RadioParts) -> LinkFilter | None:
    """Make the link filter of a radio, whose numbers are a `RadioParams`; None for the plain disc, which removes none.

    Raises:
      UserError: for an unknown name.
    """
    path_loss = RADIOS[parts.radio]
    fading = FADINGS[parts.fading] if parts.fading else None
    rate = RATES[parts.rate] if parts.rate else None
    sharing = SHARINGS[parts.sharing] if parts.sharing else None
    if path_loss is None and sharing is None and not parts.bursts:
        return None
    outages, carries = path_loss is not None or parts.bursts, rate is not None or sharing is not None

    def init(params: RadioParams, key: jax.Array, clients: Clients, places: int) -> RadioState:
        num_clients = clients.num_samples.shape[0]
        own = partial(jax.random.fold_in, stream(key, "link"))
        waves = draw_waves(own(SHADOWING), params.signal.typed().shadowing_distance) if parts.shadowed else None
        bursts = no_bursts(num_clients, places) if parts.bursts else None
        flies = path_loss is not None and path_loss.heights is not None
        drawn = jax.random.uniform(own(HEIGHTS), (num_clients,)) if flies else None
        return RadioState(waves, bursts, drawn)

    def step(params: RadioParams, state: RadioState, key: jax.Array, met: Met) -> tuple[Met, RadioState]:
        of_bursts, of_fading = jax.random.split(jax.random.fold_in(key, 1))
        num_clients, senders, in_radius = met.heard.shape[0], met.senders, met.heard
        if state.bursts is not None:
            draws = senders.uniform_of_pairs(of_bursts, num_clients)
            bursts = after_a_round(params.burst, params.burst_end, state.bursts, met, draws)
            met, state = met._replace(heard=met.heard & ~bursts.under_way), state._replace(bursts=bursts)
        snr = None
        if path_loss is not None:
            draw = lambda k: senders.uniform_of_pairs(jax.random.fold_in(of_fading, k), num_clients)  # noqa: E731
            gain = decibel(fading(_typed(params.fading), draw)) if fading else jnp.float32(0)
            dark = shadowing(state.waves, met) * params.signal.shadowing if state.waves is not None else 0
            met, snr = signals(params, state.drawn, gain - dark, met)
        if outages:
            met = met._replace(extra=(*met.extra, Outages(in_radius, in_radius & ~met.heard)))
        if not carries:
            return met, state
        bits = rate.bits(_typed(params.rate), snr) if rate and snr is not None else params.bandwidth
        if sharing:
            bits = bits * sharing.share(_typed(params.sharing), met.heard, senders)
        return met._replace(rate=jnp.where(met.heard, bits, 0).astype(jnp.float32)), state

    def signals(params: RadioParams, drawn: jax.Array | None, gain: jax.Array, met: Met) -> tuple[Met, jax.Array]:
        """Remove the links in outage: return the others with their radii, and their SNR, [N, K] dB."""
        assert path_loss is not None
        assert met.squared is not None, "a radio needs distances"
        assert met.radius is not None, "a radio needs places"
        numbers, senders = params.signal.typed(), met.senders
        tall: tuple[jax.Array, ...] = ()
        if path_loss.heights is not None:
            assert met.is_mobile is not None
            assert drawn is not None
            height = path_loss.heights(numbers, drawn, met.is_mobile, met.height)
            tall = (height[:, None], senders.of(height))
        level = numbers.power - path_loss.loss(numbers, jnp.sqrt(met.squared), *tall) + gain
        noise = numbers.noise
        if sharing and sharing.heard_too:
            power = jnp.where(met.heard, ratio_of(level), 0)
            # Sums of those before and after: beside a strong signal, its difference from the sum of all is rounding.
            before, after = (
                jnp.cumsum(jnp.pad(of, ((0, 0), (1, 0))), axis=1) for of in (power[:, :-1], power[:, :0:-1])
            )
            others = before + after[:, ::-1]
            others = jnp.maximum(others, senders.opposite(others))  # both must hear each other
            noise = decibel(ratio_of(noise) + sharing.heard_too(_typed(params.sharing)) * others)
        least = jnp.maximum(numbers.threshold, rate.least(_typed(params.rate))) if rate else numbers.threshold
        reach = path_loss.reach(numbers, numbers.power + gain - noise - least, *tall)
        near = (reach > 0) & (met.squared <= squared_reach(reach, met.squared.dtype))
        radius = jnp.minimum(link_radius(met.radius, senders, met.heard.shape[0]), reach)
        return met._replace(heard=met.heard & near, radius=radius), jnp.maximum(level - noise, least)

    fixed, measured = not (parts.fading or parts.bursts), (*(OUTAGES if outages else ()), *(RATE if carries else ()))
    return LinkFilter(init, step, keeps_fixed=fixed, needs_distances=path_loss is not None, metrics=measured)


def _share(at: Any, part: str, whole: str) -> jax.Array:
    """Return the quotient of two sums over the rounds since the last evaluation, [N]; NaN where the second is 0."""
    parts, number = at.total(part), at.total(whole)
    return jnp.where(number > 0, parts / jnp.maximum(number, 1), jnp.nan)


def _number(links: jax.Array) -> jax.Array:
    """Return the number of links [N, K] of each client, [N] float32."""
    return jnp.sum(links, axis=1).astype(jnp.float32)


def _rates(view: Any) -> jax.Array:
    """Return [N] float32, the sum of the bits per second over the links on which each client can hear."""
    return jnp.sum(jnp.where(view.links.audible, view.links.channel.rate, 0), axis=1)


OUTAGES = (
    Metric(
        "within_radius",
        lambda at: at.mean_over_rounds("within_radius"),
        UNKNOWN,
        each_round=lambda view: _number(view.links.get(Outages).in_radius),
        label="clients within the radius",
        summary=False,
    ),
    Metric(
        "outage",
        lambda at: _share(at, "outage", "within_radius"),
        UNKNOWN,
        each_round=lambda view: _number(view.links.get(Outages).are),
        over_clients=mean_of_known,
        label="outage (%)",
        scale=0.01,
        shown={TABLE, CURVE},
    ),
)
"""[N] float32, over the rounds since the last evaluation: the clients within each client's radius in a round, and the
share of these whose signal is in outage or in a burst; NaN where there were none."""
RATE = (
    Metric(
        "link_rate",
        lambda at: _share(at, "link_rate", "num_neighbours"),
        UNKNOWN,
        each_round=_rates,
        over_clients=mean_of_known,
        unit="bit/s",
        label="rate of a link (Mbit/s)",
        scale=1e6,
        shown={TABLE, CURVE},
    ),
)
"""[N] float32, the mean bits per second of the links on which each client could hear, over the rounds since the last
evaluation; NaN where there were none."""


def _typed(numbers: Any) -> Any:
    return numbers.typed() if isinstance(numbers, Numbers) else numbers


_of_links = partial(field, part="links")


@section("radio", order=3)
@dataclass(frozen=True)
class RadioConfig(Section):
    """Which signals arrive within the radius of network, and how many bits a second a link carries."""

    name: str = _of_links("disc", "how signals get weaker with the distance", names=RADIOS)
    fading: str = _of_links("", "how signals fade from round to round; empty: not", names=lambda: ("", *FADINGS))
    rate: str = _of_links(
        "", "bits per second of a link by its signal; empty: cost.bandwidth", names=lambda: ("", *RATES)
    )
    sharing: str = _of_links(
        "", "how the senders in range share the channel; empty: each has its own", names=lambda: ("", *SHARINGS)
    )
    burst: float = _of_links(
        0.0,
        "probability that a burst of outage begins between two clients after a round",
        at_least=0,
        at_most=1,
        traced=True,
    )
    burst_end: float = field(
        1.0, "probability that a burst ends after a round", above=0, at_most=1, traced=True, part="bursts"
    )

    FAMILIES = (
        Family(
            RADIOS,
            "Radios",
            "radio",
            "radio.name",
            about="How signals get weaker with the distance d of two clients, in metres or grid units. SNR is the "
            "signal-to-noise ratio in dB, R the radius, X the shadowing of a pair of clients, which move by m_i and "
            "m_j between X and X', and G the gain of its fading (`radio.fading`).",
        ),
        Family(
            FADINGS,
            "Fading",
            "radio",
            "radio.fading",
            about="How the power of a signal fades: its gain G in a round, drawn for each pair of clients.",
        ),
        Family(
            RATES,
            "Rates of links",
            "radio",
            "radio.rate",
            about="How many bits a second a link carries by its signal-to-noise ratio SNR, in dB.",
        ),
        Family(
            SHARINGS,
            "Sharing of the channel",
            "radio",
            "radio.sharing",
            about="How the senders in range of each other share one channel. rate_ij is that of the link from j to i, "
            "M_k the set of client k and those that it hears, P_ij the power of j at i.",
        ),
    )

    def parts(self, whole: Any) -> RadioParts:
        """Return its parts."""
        return RadioParts(self.name, self.fading, self.rate, self.sharing, is_shadowed(whole), has_bursts(whole))

    def members(self, whole: Any) -> tuple[RadioParts, RadioParams]:
        """Return its parts, and their traced numbers."""
        families: tuple[Registry[Any], ...] = (RADIOS, FADINGS, RATES, SHARINGS)
        numbers = (self.burst, self.burst_end, whole.cost.bandwidth)
        names = self.name, self.fading, self.rate, self.sharing
        own = (self.traced(family, name) for family, name in zip(families, names, strict=True))
        return self.parts(whole), RadioParams(*own, *map(np.float32, numbers))

    def in_use(self, whole: Any) -> bool:
        """Tell whether it is another one than the plain disc."""
        return self.link_filter(whole, None) is not None

    def counts(self, whole: Any) -> bool:
        """Tell whether links have rates, so that messages take time."""
        return bool(self.rate)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules for radios: distances are known, signals have a strength, and one field says the rate."""
        network, pattern = whole.network, whole.server.pattern
        by_signal = RADIOS[self.name] is not None
        for name, unused in (("name", "disc"), ("sharing", "empty"), ("burst", "0")):
            is_set = getattr(self, name) not in (unused, "", 0)
            yield f"radio.{name}", pattern and is_set, f"{unused} with server.pattern {pattern}"
        where = f"disc: a graph (network.graph is {network.graph}) knows no distances"
        yield "radio.name", by_signal and network.graph, where
        listed = not network.graph and world_in(whole) == "contacts"
        yield "radio.name", by_signal and listed, "disc: a contact list (network.mobility contacts) knows no distances"
        without = f"empty with radio.name {self.name}, which knows no strength of a signal"
        yield "radio.fading", self.fading and not by_signal, without
        yield "radio.rate", self.rate and not by_signal, without
        disturbs = self.sharing and SHARINGS[self.sharing].heard_too
        yield "radio.sharing", disturbs and not by_signal, without.replace("empty", "another one")
        bandwidth = math.isfinite(whole.cost.bandwidth)
        yield "cost.bandwidth", self.rate and bandwidth, f"inf: radio.rate {self.rate} says the rate of each link"

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield that nothing is read of parts that it does not have, and what another part hides."""
        yield "shadowing", not is_shadowed(whole), "radio.shadowing is 0"
        yield "bursts", not self.burst, "radio.burst is 0"
        taken = self.sharing and not SHARINGS[self.sharing].heard_too
        yield "radio.sharing", sends_without_rate(whole) and taken, "cost.bandwidth is inf and radio.rate is empty"
        least, passed = least_snr(*self.members(whole)), vars(self)["threshold"]
        hidden = RADIOS[self.name] is not None and passed is not None and least > passed
        yield "radio.threshold", hidden, f"radio.rate {self.rate} needs {least:g} dB"

    def notes(self, whole: Any, num_samples: int) -> Iterator[Rule]:
        """Yield a radius that hides what a radio can hear, and a radio that hears nobody."""
        found = self.members(whole)
        reach = reach_alone(*found)
        why = f"nobody is heard beyond it, and without shadowing and fading a signal reaches {reach:.4g}"
        yield "network.radius", reach > whole.network.radius, why
        silent = hears_nobody(*found, whole.network.radius)
        yield "radio.name", bool(silent), silent

    def best_rate(self, whole: Any) -> float:
        """Return the most bits per second of a link without shadowing and fading."""
        return best_rate(*self.members(whole))

    def replaced_by_heights(self) -> dict[str, Any] | None:
        """Return the fields that are set and that heights of a trace replace; None if the radio reads no heights."""
        path_loss, passed = RADIOS[self.name], vars(self)
        if path_loss is None or path_loss.heights is None:
            return None
        return {f"radio.{name}": passed[name] for name in path_loss.drawn if passed[name] is not None}

    def describe(self, whole: Any) -> str:
        """Return how signals get weaker."""
        return f"radio.name={self.name}"

    def link_filter(self, whole: Any, work: Any) -> LinkFilter | None:
        """Return the rule that removes links in outage, and tells the rates of the others."""
        return radio(self.parts(whole))

    def filter_params(self, whole: Any, cost: Any) -> RadioParams:
        """Return the numbers of its parts."""
        return self.members(whole)[1]


@switch
def is_shadowed(whole: Any) -> bool:
    """Tell whether obstacles make signals weaker or stronger, by their place."""
    config = RadioConfig.of(whole)
    return getattr(config.member(RADIOS, config.name), "shadowing", 0.0) > 0


@switch
def has_bursts(whole: Any) -> bool:
    """Tell whether there are bursts of outage."""
    return RadioConfig.of(whole).burst > 0
