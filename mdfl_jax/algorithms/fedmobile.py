"""FedMobile: asynchronous federated learning with a server, updates and models relayed by clients; and its rivals.

A slot is a round. Order: clients at the server upload their cumulative updates (CLU) m_i, the server does
x <- x - (1/N) sum m_i (4), they download x and reset m_i = 0; then those that meet relay; then every client takes its
local steps, and what they moved it by is added to m_i (2), (3). Nothing is lost and nothing delivered twice:
N (x^0 - x^t) + sum_i m_i is the sum of all steps taken, in every variant. Batch statistics are no updates: they
travel with the models, and the server's go towards those of the clients that upload.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import CompressedNumbers, LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.errors import UserError
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.exchange.manipulate import Private, after_exchange, manipulate, no_private
from mdfl_jax.exchange.meter import dense_bits, double_dense_bits
from mdfl_jax.exchange.relay import Meetings, Relays, Search, find, handed_over, meetings_of
from mdfl_jax.exchange.search import automatic
from mdfl_jax.exchange.together import on_each_device
from mdfl_jax.exchange.traffic import TRAFFIC_METRICS, Traffic, add_traffic, no_traffic, slot_traffic
from mdfl_jax.numbers import Setting, number
from mdfl_jax.rng import own_draws
from mdfl_jax.rows import rows_like
from mdfl_jax.statistics import each
from mdfl_jax.types import BEFORE, Algorithm, ClientParams, Gradient, Links, RoundStats

MOST_SLOTS = 10**6  # of a search interval; sums of a few stay far below NEVER


class Variant(NamedTuple):
    """What makes one of the algorithms.

    Attributes:
      upload: "meeting", "always" (an imaginary channel in every slot), of the client's own uploads.
      download: the same of its downloads.
      relay_upload: whether updates are relayed.
      relay_download: "" not at all, "global" the relay's copy of the global model, "local" its local model.
      search: "given" by the numbers, "auto" as `mdfl_jax.exchange.search` finds it.
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
    """How many relays there may be (FedMobile 4); a compressor acts on relayed updates alone."""

    max_upload: int = _slots(1, "uploads by relay between two meetings, K")
    max_download: int = _slots(1, "downloads by relay between two meetings, K")


class FedMobileNumbers(RelayNumbers):
    """The search intervals of relays (FedMobile 4)."""

    upload_from: int = _slots(10, "slots after a meeting from which updates may be relayed, theta")
    upload_until: int = _slots(40, "slots after a meeting until which they may be, and must arrive, Theta")
    download_from: int = _slots(5, "slots before the next meeting until which models may be relayed, omega")
    download_until: int = _slots(25, "slots before it from which they may be, and must be of, Omega")

    def check(self, setting: Setting) -> None:
        """Intervals in order."""
        super().check(setting)
        for low, high in (("upload_from", "upload_until"), ("download_from", "download_until")):
            begin, end = getattr(self, low), getattr(self, high)
            if begin > end:
                raise UserError(f"algorithm.{low} is {begin}; it must be at most algorithm.{high}, which is {end}")

    def notes(self, setting: Setting) -> list[str]:
        """Search intervals beyond the longest gap."""
        gap = setting.largest_gap
        return [
            f"algorithm.{name} is {getattr(self, name)}, more than the longest gap between meetings, which is {gap}"
            for name in ("upload_until", "download_until")
            if gap is not None and getattr(self, name) > gap
        ]


class FedMobileState(NamedTuple):
    """The clients, the server and what is between them; None where a variant does without.

    Attributes:
      params: [N, ...] local models x_i.
      opt_state: [N, ...]; it is never exchanged.
      held: [N, ...] cumulative updates m_i, with those relayed by others.
      server: [1, ...] global model x.
      copies: [N, ...] the latest global model that each received.
      private: updates of a client's own, where what is relayed is manipulated.
      version: [N] int32 psi_i, the slot of that model; -1 is the model that all start with.
      gave: [N] int32 uploads by relay since the last meeting.
      took: [N] int32 downloads by relay since then.
      contacts: [N] int32 slots so far in which somebody was met.
      slot: [] int32 t.
      traffic: what was sent.
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
    """x - (1/N) sum of m_i over those who upload (4); batch statistics go a share 1 / N of the way to theirs.

    Sums of what statistics moved by long ago would overshoot: a variance would fall below zero. The sum is a product,
    which CPUs do some thirty times faster than a sum along the leading axis; what is not uploaded is set to zero before
    it, since it may be infinite in a run that diverges.
    """

    def leaf(x: jax.Array, m: jax.Array, _: jax.Array) -> jax.Array:
        uploaded = jnp.where(rows_like(uploads, m), m, 0)
        total = jnp.einsum("i,i...->...", uploads.astype(m.dtype), uploaded, precision="highest")
        return x - total / num_clients

    return each(leaf, lambda x, m, own: leaf(x, x - own, own), server, held, params)


def _replaced(own: ClientParams, offered: ClientParams, server: ClientParams, fresh: jax.Array, relays: Relays) -> Any:
    """REPLACE (4.2), one pass: the server's model where it is fresh, the source's where one is taken."""

    def leaf(x: jax.Array, bank: jax.Array, new: jax.Array) -> jax.Array:
        taken = jnp.where(rows_like(relays.takes, x), bank[relays.source], x)
        return jnp.where(rows_like(fresh, x), new, taken)

    return jax.tree.map(leaf, own, offered, server)


def _exchanges(
    variant: Variant, hparams: Any, state: FedMobileState, links: Links, meetings: Meetings
) -> tuple[Relays, FedMobileState]:
    """Who relays for whom when the slot's meetings are over (state.version is of then), and the counts for it."""
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
    # Who has just met the server has nothing to hand over.
    may_give = (gave < hparams.max_upload) & ~meetings.now & variant.relay_upload
    may_take = (took < hparams.max_download) & bool(variant.relay_download)
    relays = find(state.slot, search, links, meetings, state.version, may_give, may_take)
    return relays, state._replace(gave=gave + relays.gives, took=took + relays.takes, contacts=contacts)


def _make(settings: Settings, variant: Variant) -> Algorithm:
    if settings.compressor:
        COMPRESSORS[settings.compressor]  # an unknown name is told of here

    def hand_over(
        hparams: Any,
        key: jax.Array,
        state: FedMobileState,
        links: Links,
        uploads: jax.Array,
        relays: Relays,
    ) -> tuple[ClientParams, Private | None, jax.Array | int]:
        """RESET and COMBINE (4.1, E): held updates, private ones, and bits of those relayed."""
        clear, held, private = uploads | relays.gives, state.held, state.private
        cleared = jax.tree.map(lambda m: jnp.where(rows_like(clear, m), 0, m), held)
        if not variant.relay_upload:
            return cleared, private, 0
        if private is None:
            combine = partial(handed_over, relays=relays, partner=links.partner)
            return jax.tree.map(combine, cleared, held), None, dense_bits(held)
        error, bits = manipulate(settings.compressor, hparams.compressor, own_draws(key), private, relays)

        def leaf(m: jax.Array, kept: jax.Array, eps: jax.Array) -> jax.Array:
            left = jnp.where(rows_like(relays.gives, m), -eps, kept)
            return handed_over(left, m + eps, relays, links.partner)

        return jax.tree.map(leaf, held, cleared, error), after_exchange(private, uploads, relays), bits

    def do_round(
        hparams: Any, key: jax.Array, state: FedMobileState, links: Links, gradient: Gradient
    ) -> tuple[FedMobileState, RoundStats]:
        rows = state.version.shape[0]
        everyone, meetings = jnp.arange(rows) < links.num_clients, meetings_of(links, rows)
        uploads = everyone if variant.upload == "always" else meetings.now
        downloads = everyone if variant.download == "always" else meetings.now

        # 1. The server.
        server = _delivered(state.server, state.held, state.params, uploads, links.num_clients)
        state = state._replace(version=jnp.where(downloads, state.slot, state.version))

        # 2. Relays. What a source has just downloaded is not in its row yet: it is the server's model.
        relays, state = _exchanges(variant, hparams, state, links, meetings)
        held, private, update_bits = hand_over(hparams, key, state, links, uploads, relays)
        fresh = downloads | (relays.takes & downloads[relays.source])
        offered = state.params if state.copies is None else state.copies
        params = _replaced(state.params, offered, server, fresh, relays)
        copies = None if state.copies is None else _replaced(state.copies, state.copies, server, fresh, relays)

        # 3. Local steps.
        stepped, opt_state, loss = local_steps(
            settings.optimizer(hparams), settings.num_local_steps, key, params, state.opt_state, gradient
        )
        add_move = lambda m, before, after: m + (before - after)  # noqa: E731
        sum_up = partial(each, add_move, lambda m, before, after: m)  # of statistics nothing is summed up
        if private is not None:
            private = private._replace(update=sum_up(private.update, params, stepped))
        sent = on_each_device(
            partial(slot_traffic, model_bits=dense_bits(params)), uploads, downloads, relays, update_bits
        )
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
        return state, RoundStats(loss, sent.messages, sent.bits)

    meets = variant.upload == "meeting" or variant.download == "meeting"
    needs = {"at_server", "last_server", "next_server"} if meets else set[str]()
    return Algorithm(
        needs=frozenset(needs | {"adjacency"} if variant.relays else needs),
        init=lambda hparams, client_params: _init_state(settings, variant, hparams, client_params),
        round=do_round,
        params=lambda state: state.params,
        global_model=lambda state: state.server,
        double_bits=None if settings.compressor else double_dense_bits,
        metrics=TRAFFIC_METRICS,
    )


def _register(name: str, variant: Variant, doc: str) -> Any:
    def factory(settings: Settings = Settings()) -> Algorithm:
        return _make(settings, variant)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    numbers = LocalNumbers if not variant.relays else RelayNumbers if variant.search == "auto" else FedMobileNumbers
    return register(name, numbers, ignores=("statistics", *(() if variant.relay_upload else ("compressor",))))(factory)


BOTH = Variant(relay_upload=True, relay_download="global")
fedmobile = _register("fedmobile", BOTH, "FedMobile (4): updates to and global models from the server by relays.")
fedmobile_u = _register("fedmobile_u", Variant(relay_upload=True), "FedMobile-U (7): updates by relays alone.")
fedmobile_d = _register("fedmobile_d", Variant(relay_download="global"), "FedMobile-D (7): global models alone.")
fedmobile_local = _register(
    "fedmobile_local",
    Variant(relay_upload=True, relay_download="local"),
    "FedMobile whose relays send their local models and keep no copy of the global one (4.2, remark 2; C.2).",
)
fedmobile_auto = _register(
    "fedmobile_auto",
    BOTH._replace(search="auto"),
    "FedMobile whose search intervals follow from what each client has seen (`mdfl_jax.exchange.search`).",
)
async_fl = _register("async_fl", Variant(), "ASYNC (3; Avdiukhin and Kasiviswanathan, ICML 2021): nothing is relayed.")
virtual_upload = _register(
    "virtual_upload", Variant(upload="always"), "Virtual-U (7): uploads in every slot, downloads at meetings."
)
virtual_download = _register(
    "virtual_download", Variant(download="always"), "Virtual-D (7): downloads in every slot, uploads at meetings."
)
server_fedavg = _register(
    "server_fedavg",
    Variant(upload="always", download="always"),
    "FedAvg with a server that everybody reaches in every round, for reference (McMahan et al. 2017, clients alike).",
)
