"""FedMobile: asynchronous federated learning with a server, where clients relay updates and models; and its rivals.

A slot is a round, and has three parts. First, the clients that meet the server upload their cumulative updates (CLU)
m_i. The server does x <- x - (1/N) sum m_i (equation 4), and these clients download x and reset m_i = 0. Then clients
that meet each other relay. Then every client takes its local steps and adds its change, model before minus model after,
to m_i (equations 2 and 3).

No update is lost and none is delivered twice: in every variant N (x^0 - x^t) + sum_i m_i is the sum of all local steps
taken. Batch statistics are not part of the updates: they are sent with the models, and the server's statistics move
towards those of the clients that upload.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import CompressedNumbers, LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.message_bits import Bits, as_bits, dense_bits, double_dense_bits
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import (
    BEFORE,
    Algorithm,
    ClientParams,
    Links,
    Meetings,
    Report,
    RoundContext,
    RoundStats,
    Traits,
)
from mdfl_jax.exchange.active import takes_part
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.exchange.relay import (
    RELAYED_DOWNLOAD,
    RELAYED_UPLOAD,
    TRAFFIC_METRICS,
    Private,
    Relays,
    Search,
    Traffic,
    add_traffic,
    after_exchange,
    automatic,
    find,
    handed_over,
    manipulate,
    meetings_of,
    no_private,
    no_traffic,
    relayed,
    slot_traffic,
)
from mdfl_jax.metrics.values import HEARD

MOST_SLOTS = 10**6  # the largest bound of a search interval; sums of a few such numbers stay far below NEVER


class Variant(NamedTuple):
    """What distinguishes one of the algorithms of this file from the others.

    Attributes:
      upload: when a client uploads to the server: "meeting", when it meets the server; or "always", in every slot
        through an imaginary channel. In every variant, uploads or downloads happen at meetings only.
      download: the same for downloads from the server; or "once", at each meeting, and once more through an imaginary
        channel a set number of slots after it.
      relay_upload: whether updates are relayed.
      relay_download: what a relay sends: "" for nothing, "global" for its copy of the global model, "local" for its
        local model.
      search: how search intervals are chosen: "given" by the numbers, or "auto" by `mdfl_jax.exchange.relay`.
    """

    upload: str = "meeting"
    download: str = "meeting"
    relay_upload: bool = False
    relay_download: str = ""
    search: str = "given"

    @property
    def relays(self) -> bool:
        """Whether anything is relayed."""
        return self.relay_upload or bool(self.relay_download)


def _slots(default: int, doc: str) -> Any:
    return number(default, doc, at_least=0, at_most=MOST_SLOTS)


class RelayNumbers(CompressedNumbers, LocalNumbers):
    """The largest numbers of relays (FedMobile, section 4). A compressor acts on relayed updates only."""

    max_upload: int = _slots(1, "uploads by relay between two meetings, K")
    max_download: int = _slots(1, "downloads by relay between two meetings, K")


class FedMobileNumbers(RelayNumbers):
    """The search intervals for relays (FedMobile, section 4)."""

    upload_from: int = _slots(10, "slots after a meeting from which updates may be relayed, theta")
    upload_until: int = _slots(40, "slots after a meeting until which updates may be relayed and must arrive, Theta")
    download_from: int = _slots(5, "slots before the next meeting until which models may be relayed, omega")
    download_until: int = _slots(
        25, "slots before the next meeting from which models may be relayed; no older ones, Omega"
    )

    def check(self, setting: Setting) -> None:
        """Check that no interval ends before it begins."""
        super().check(setting)
        for low, high in (("upload_from", "upload_until"), ("download_from", "download_until")):
            begin, end = getattr(self, low), getattr(self, high)
            if begin > end:
                raise UserError(f"algorithm.{low} is {begin}; it must be at most algorithm.{high}, which is {end}")

    def notes(self, setting: Setting) -> list[str]:
        """Note search intervals that are longer than the longest gap between two meetings."""
        gap = setting.largest_gap
        return [
            f"algorithm.{name} is {getattr(self, name)}, more than the longest gap between meetings, which is {gap}"
            for name in ("upload_until", "download_until")
            if gap is not None and getattr(self, name) > gap
        ]


class DownloadOnceNumbers(LocalNumbers):
    """When the imaginary channel works (FedMobile C.3).

    All clients start with the server's model, so before its first meeting a client counts from slot -1.
    """

    download_after: int = _slots(30, "slots after a client's last meeting with the server at which it downloads once")


class FedMobileState(NamedTuple):
    """The state of the clients and the server. A field that a variant does not use is None.

    Attributes:
      params: [N, ...] the local models x_i.
      opt_state: [N, ...] the optimiser states, never exchanged.
      held: [N, ...] the cumulative updates m_i, including updates received from others as a relay.
      server: [1, ...] the global model x.
      copies: [N, ...] the latest global model that each client received; None where relays do not send it.
      private: each client's own updates, used where relayed updates are compressed; else None.
      version: [N] int32 psi_i, the slot of the latest global model received; -1 is the initial model.
      gave: [N] int32 uploads by relay since the last meeting with the server.
      took: [N] int32 downloads by relay since the last meeting with the server.
      contacts: [N] int32 slots so far in which the client met another client; it is counted where there are relays.
      slot: [] int32 t.
      traffic: the messages and bits sent so far.
    """

    params: ClientParams
    opt_state: Any
    held: ClientParams
    server: ClientParams
    copies: ClientParams | None
    private: Private | None
    version: jax.Array
    gave: jax.Array
    took: jax.Array
    contacts: jax.Array
    slot: jax.Array
    traffic: Traffic


def _init_state(settings: Settings, variant: Variant, hparams: Any, client_params: ClientParams) -> FedMobileState:
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    zero = jnp.zeros(num_clients, jnp.int32)
    return FedMobileState(
        params=client_params,
        opt_state=init_optimizer(settings.optimizer(hparams), client_params),
        held=jax.tree.map(jnp.zeros_like, client_params),
        server=jax.tree.map(lambda p: p[:1], client_params),
        copies=client_params if variant.relay_download == "global" else None,
        private=no_private(client_params) if variant.relay_upload and settings.compressor else None,
        version=zero + BEFORE,
        gave=zero,
        took=zero,
        contacts=zero,
        slot=jnp.int32(0),
        traffic=no_traffic(num_clients),
    )


def _delivered(
    server: ClientParams, held: ClientParams, params: ClientParams, uploads: jax.Array, num_clients: int
) -> ClientParams:
    """Return the server's new model x - (1/N) sum of m_i, the sum being over the clients that upload (equation 4).

    Each uploading client moves the server's batch statistics 1 / N of the way to its own. Statistics are not
    accumulated in m_i, because their old changes would overshoot and could make a variance negative.

    The sum is computed as a matrix product, which is some thirty times faster on CPUs than a sum along the leading
    axis. Updates that are not uploaded are set to zero first, since they may be infinite in a run that diverges.
    """

    def leaf(x: jax.Array, m: jax.Array, _: jax.Array) -> jax.Array:
        uploaded = jnp.where(rows_like(uploads, m), m, 0)
        total = jnp.einsum("i,i...->...", uploads.astype(m.dtype), uploaded, precision="highest")
        return x - total / num_clients

    return each(leaf, lambda x, m, own: leaf(x, x - own, own), server, held, params)


def _replaced(own: ClientParams, offered: ClientParams, server: ClientParams, fresh: jax.Array, relays: Relays) -> Any:
    """REPLACE (4.2) in one pass over the models.

    A client gets the server's model where ``fresh``, the model of its source where it takes one, else it keeps its own.
    """

    def leaf(x: jax.Array, bank: jax.Array, new: jax.Array) -> jax.Array:
        taken = jnp.where(rows_like(relays.takes, x), bank[relays.source], x)
        return jnp.where(rows_like(fresh, x), new, taken)

    return jax.tree.map(leaf, own, offered, server)


def _exchanges(
    variant: Variant, hparams: Any, state: FedMobileState, links: Links, meetings: Meetings
) -> tuple[Relays, FedMobileState]:
    """Find who relays for whom after the slot's meetings with the server, and update the counts of relays and contacts.

    ``state.version`` must already include the downloads of these meetings.
    """
    num_clients = state.version.shape[0]
    me = jnp.arange(num_clients, dtype=jnp.int32)
    if not variant.relays:
        nobody = jnp.zeros(num_clients, bool)
        return Relays(nobody, me, nobody, me), state
    gave, took = (jnp.where(meetings.now, 0, used) for used in (state.gave, state.took))
    met = jnp.any(links.adjacency, axis=1) if links.partner is None else links.partner != me
    contacts = state.contacts + met
    if variant.search == "auto":
        search = automatic(meetings, contacts, state.slot)
    else:
        search = Search(hparams.upload_from, hparams.upload_until, hparams.download_from, hparams.download_until)
    # A client that has just met the server has no update left to hand over.
    may_give = (gave < hparams.max_upload) & ~meetings.now & variant.relay_upload
    may_take = (took < hparams.max_download) & bool(variant.relay_download)
    relays = find(state.slot, search, links, meetings, state.version, may_give, may_take)
    return relays, state._replace(gave=gave + relays.gives, took=took + relays.takes, contacts=contacts)


def _make(settings: Settings, variant: Variant) -> Algorithm:
    if settings.compressor:
        COMPRESSORS[settings.compressor]  # raises UserError early for an unknown name

    def hand_over(
        hparams: Any,
        key: jax.Array,
        state: FedMobileState,
        told: ClientParams,
        links: Links,
        uploads: jax.Array,
        relays: Relays,
    ) -> tuple[ClientParams, Private | None, Bits]:
        """RESET and COMBINE (4.1, E): return the held and the private updates, and the bits of a relayed update.

        ``told`` are the updates that clients send, [N, ...].
        """
        clear, held, private = uploads | relays.gives, state.held, state.private
        cleared = jax.tree.map(lambda m: jnp.where(rows_like(clear, m), 0, m), held)
        if not variant.relay_upload:
            return cleared, private, as_bits(0)
        if private is None:
            combine = partial(handed_over, relays=relays, partner=links.partner)
            return jax.tree.map(combine, cleared, told), None, as_bits(dense_bits(held))
        error, bits = manipulate(settings.compressor, hparams.compressor, own_draws(key), private, relays)

        def leaf(m: jax.Array, kept: jax.Array, eps: jax.Array) -> jax.Array:
            left = jnp.where(rows_like(relays.gives, m), -eps, kept)
            return handed_over(left, m + eps, relays, links.partner)

        return jax.tree.map(leaf, told, cleared, error), after_exchange(private, uploads, relays), bits

    def do_round(
        hparams: Any, state: FedMobileState, links: Links, context: RoundContext
    ) -> tuple[FedMobileState, RoundStats]:
        everyone, meetings = takes_part(links), meetings_of(links)
        uploads = everyone if variant.upload == "always" else meetings.now
        downloads = everyone if variant.download == "always" else meetings.now
        if variant.download == "once":
            downloads |= everyone & (state.slot - meetings.last == hparams.download_after)

        # 1. The server.
        told = settings.sent(hparams, context.key, links, state.held)
        server = _delivered(state.server, told, state.params, uploads, links.num_clients)
        state = state._replace(version=jnp.where(downloads, state.slot, state.version))

        # 2. Relays. A model that a source downloaded in this slot is not in its row yet, so it is read from the server.
        relays, state = _exchanges(variant, hparams, state, links, meetings)
        held, private, update_bits = hand_over(hparams, context.key, state, told, links, uploads, relays)
        fresh = downloads | (relays.takes & downloads[relays.source])
        own = state.params if state.copies is None else state.copies
        offered = settings.sent(hparams, context.key, links, own, which=1)
        params = _replaced(state.params, offered, server, fresh, relays)
        copies = None if state.copies is None else _replaced(state.copies, offered, server, fresh, relays)

        # 3. Local steps.
        stepped, opt_state, loss = local_steps(settings, hparams, params, state.opt_state, context)
        add_move = lambda m, before, after: m + (before - after)  # noqa: E731
        sum_up = partial(each, add_move, lambda m, before, after: m)  # statistics are not accumulated
        if private is not None:
            private = private._replace(update=sum_up(private.update, params, stepped))
        sent = everywhere(partial(slot_traffic, model_bits=dense_bits(params)), uploads, downloads, relays, update_bits)
        state = state._replace(
            params=stepped,
            opt_state=opt_state,
            held=sum_up(held, params, stepped),
            server=server,
            copies=copies,
            private=private,
            version=state.version[relays.source],
            slot=state.slot + 1,
            traffic=add_traffic(state.traffic, sent),
        )
        over = everywhere(relayed, relays, links.senders)
        met = Meetings(uploads | downloads)  # also through an imaginary channel
        heard = links._replace(adjacency=over, server=met)
        return state, RoundStats(loss, sent.messages, sent.bits, heard, Report(details=relays))

    needs = {"server"}
    return Algorithm(
        needs=frozenset(needs | {"adjacency"} if variant.relays else needs),
        init=lambda hparams, client_params: _init_state(settings, variant, hparams, client_params),
        round=do_round,
        params=lambda state: state.params,
        global_model=lambda state: state.server,
        metrics=(HEARD, *TRAFFIC_METRICS, *_records(variant)),
        traits=Traits(None if settings.compressor else double_dense_bits),
    )


def _records(variant: Variant) -> list[Metric]:
    uploads, downloads = variant.relay_upload, bool(variant.relay_download)
    return [record for record, relayed in ((RELAYED_UPLOAD, uploads), (RELAYED_DOWNLOAD, downloads)) if relayed]


BOTH = Variant(relay_upload=True, relay_download="global")
VARIANTS = {
    "fedmobile": (
        BOTH,
        "FedMobile: updates to the server, and global models from it, by relays.",
        "fedmobile: 4",
    ),
    "fedmobile_u": (Variant(relay_upload=True), "FedMobile-U: updates by relays alone.", "fedmobile: 7"),
    "fedmobile_d": (Variant(relay_download="global"), "FedMobile-D: global models by relays alone.", "fedmobile: 7"),
    "fedmobile_local": (
        Variant(relay_upload=True, relay_download="local"),
        "FedMobile whose relays send their local models and keep no copy of the global one.",
        "fedmobile: 4.2, remark 2, and C.2",
    ),
    "fedmobile_auto": (
        BOTH._replace(search="auto"),
        "FedMobile whose search intervals follow from what each client has seen (`mdfl_jax.exchange.relay`).",
        "fedmobile",
    ),
    "async_fl": (Variant(), "ASYNC: nothing is relayed.", "avdiukhin2021; fedmobile: 3"),
    "virtual_upload": (
        Variant(upload="always"),
        "Virtual-U: uploads in every slot, downloads at meetings.",
        "fedmobile: 7",
    ),
    "virtual_download": (
        Variant(download="always"),
        "Virtual-D: downloads in every slot, uploads at meetings.",
        "fedmobile: 7",
    ),
    "virtual_download_once": (
        Variant(download="once"),
        "ASYNC, and one download at a set number of slots after each meeting.",
        "fedmobile: C.3, figure 10",
    ),
}
"""The algorithms with a server: (what is relayed and when, description, papers)."""
CUMULATED = (
    "m_i <- m_i + x_i - (x_i after its local steps);  x_i <- x_i after its local steps\n"
    "where m_i arrives: x <- x - (1 / N) sum_i m_i, m_i <- 0;  where x arrives: x_i <- x"
)
"""The formula of all of them. They differ in when updates m_i and models x arrive."""


def _register(name: str, variant: Variant, doc: str, cite: str) -> None:
    def factory(settings: Settings = Settings()) -> Algorithm:
        return _make(settings, variant)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    numbers: type[LocalNumbers] = DownloadOnceNumbers if variant.download == "once" else LocalNumbers
    if variant.relays:
        numbers = RelayNumbers if variant.search == "auto" else FedMobileNumbers
    ignores = ("aggregation", "statistics", *(() if variant.relay_upload else ("compressor",)))
    register(name, numbers, ignores, formula=CUMULATED, cite=cite)(factory)


for _name, _of in VARIANTS.items():
    _register(_name, *_of)
