"""FedMobile slot by slot as the paper reads: loops over clients, vectors of one model each, float64.

Nothing here is shared with the package. A slot: meetings with the server, relays, one step of each client.
"""

import numpy as np

ALWAYS = ("virtual_upload", "virtual_download")


def _quiet(client, update):
    return np.zeros_like(update)


def fedmobile(
    start,
    schedule,
    gradient,
    lr,
    variant="fedmobile",
    theta=10,
    big_theta=40,
    omega=5,
    big_omega=25,
    max_upload=1,
    max_download=1,
    noise=_quiet,
    download_after=30,
):
    """A whole run.

    Args:
      start: [n] the model x^0 that all start with.
      schedule: for each slot a tuple (at_server, last, next, talks): three lists of N and talks[i], the clients that i
        can talk to.
      gradient: (client, model, slot) -> [n].
      lr: (slot) -> eta.
      variant: fedmobile, fedmobile_u, fedmobile_d, fedmobile_local, async_fl, virtual_upload, virtual_download or
        virtual_download_once.
      theta, big_theta, omega, big_omega: the search intervals.
      max_upload, max_download: relays of an interval.
      noise: (client, private update [n]) -> epsilon (appendix E).
      download_after: the slots after a meeting at which virtual_download_once downloads (C.3).

    Returns:
      A list with, after each slot, a dict: server [n], models, held, copies, each [N, n], versions [N], relayed
      (uploads and downloads by relay so far), moved (the sum of all steps so far [n]).

    >>> quiet = lambda client, model, slot: np.zeros(1)
    >>> one = lambda client, model, slot: np.ones(1)
    >>> never = ([False, False], [-1, -1], [9, 9], [[], []])
    >>> meets = ([True, False], [1, -1], [9, 9], [[], []])
    >>> run = fedmobile(np.zeros(1), [never, meets], one, lambda t: 1.0, "async_fl")
    >>> float(run[-1]["server"][0]), run[-1]["models"].ravel().tolist(), run[-1]["held"].ravel().tolist()
    (-0.5, [-1.5, -2.0], [1.0, 2.0])
    """
    start = np.asarray(start, np.float64)
    num_clients = len(schedule[0][0])
    x = start.copy()
    models = [start.copy() for _ in range(num_clients)]
    copies = [start.copy() for _ in range(num_clients)]
    held = [np.zeros_like(start) for _ in range(num_clients)]
    private = [np.zeros_like(start) for _ in range(num_clients)]
    versions = [-1] * num_clients
    uploads_left = [max_upload] * num_clients
    downloads_left = [max_download] * num_clients
    sends_up = variant in ("fedmobile", "fedmobile_u", "fedmobile_local")
    sends_down = variant in ("fedmobile", "fedmobile_d", "fedmobile_local")
    relayed, moved, history = 0, np.zeros_like(start), []

    for t, (at_server, last, following, talks) in enumerate(schedule):
        # Equation (4), and what follows from it.
        uploading = [i for i in range(num_clients) if at_server[i] or variant == "virtual_upload"]
        total = np.zeros_like(start)
        for i in uploading:
            total += held[i]
        x = x - total / num_clients
        for i in uploading:
            held[i] = np.zeros_like(start)
            private[i] = np.zeros_like(start)
        for i in range(num_clients):
            once = variant == "virtual_download_once" and t == max(last[i], -1) + download_after
            if at_server[i] or variant == "virtual_download" or once:
                models[i], copies[i], versions[i] = x.copy(), x.copy(), t
            if at_server[i]:
                uploads_left[i], downloads_left[i] = max_upload, max_download

        # Who is a qualified relay of whom, before anything of this slot is relayed.
        up_to, down_from = {}, {}
        for i in range(num_clients):
            before = last[i] if last[i] >= 0 else -1
            if sends_up and uploads_left[i] > 0 and not at_server[i] and before + theta <= t <= before + big_theta:
                semi = [j for j in talks[i] if following[j] <= before + big_theta]
                qualified = [j for j in semi if following[j] < following[i]]
                if qualified:
                    up_to[i] = min(qualified, key=lambda j: (following[j], j))
            if sends_down and downloads_left[i] > 0 and following[i] - big_omega <= t <= following[i] - omega:
                semi = [j for j in talks[i] if (last[j] if last[j] >= 0 else -1) >= following[i] - big_omega]
                qualified = [j for j in semi if last[j] > before and versions[j] > versions[i]]
                if qualified:
                    down_from[i] = min(qualified, key=lambda j: (-versions[j], j))

        # RESET and COMBINE.
        parcels = []
        for i, j in up_to.items():
            epsilon = noise(i, private[i])
            parcels.append((j, held[i] + epsilon))
            held[i], private[i] = -epsilon, np.zeros_like(start)
            uploads_left[i] -= 1
            relayed += 1
        for j, parcel in parcels:
            held[j] = held[j] + parcel

        # REPLACE.
        bank = [m.copy() for m in (models if variant == "fedmobile_local" else copies)]
        old_copies, old_versions = [c.copy() for c in copies], list(versions)
        for i, j in down_from.items():
            models[i], copies[i], versions[i] = bank[j], old_copies[j], old_versions[j]
            downloads_left[i] -= 1
            relayed += 1

        # Equations (2) and (3).
        for i in range(num_clients):
            step = lr(t) * gradient(i, models[i], t)
            models[i] = models[i] - step
            held[i], private[i] = held[i] + step, private[i] + step
            moved = moved + step

        history.append(
            {
                "server": x.copy(),
                "models": np.stack(models),
                "held": np.stack(held),
                "copies": np.stack(copies),
                "versions": list(versions),
                "relayed": relayed,
                "moved": moved.copy(),
            }
        )
    return history
