"""What a round takes: simulated seconds and joules (docs/costs.md)."""

import numpy as np


def speeds(c, draws, given=None):
    """Lognormal with mean one, divided by 1, r or r^2 for a third of the clients each; or those of a file."""
    if given is not None:
        return given
    normal, thirds = draws.speeds()
    sigma = c["cost.speed_spread"]
    return np.exp(sigma * normal - sigma**2 / 2) / c["cost.speed_ratio"] ** thirds


def samples_of_a_round(c, gradients, held):
    """What each client processes in a round: its gradients times the samples of each; in epochs all, once an epoch."""
    epochs, size = c["algorithm.local_epochs"], c["algorithm.batch_size"]
    each = [size if size and not epochs and h else h for h in held]
    return gradients * (epochs or 1) * np.array(each, float)


class Costs:
    """Adds up seconds and joules.

    Args:
      held: the samples of each client.
      gradients: those that a client computes in a round of the algorithm; ``uses_links`` whether it sends over links.
    """

    def __init__(self, c, draws, held, gradients, uses_links):
        self.c, self.uses_links = c, uses_links
        self.samples, self.held = samples_of_a_round(c, gradients, held), np.array(held, float)
        self.speed = speeds(c, draws)
        self.computing = c["cost.seconds_per_sample"] * self.samples / self.speed
        self.seconds, self.worked = 0.0, np.zeros(len(held))
        self.moved = np.zeros(len(held))

    @property
    def joules(self):
        return self.worked + self.moved

    def add(self, stats, links, heard, link_bits, distance):
        """Adds a round: who computed, what was sent over which links, and how far everybody has moved so far."""
        c, n = self.c, len(self.held)
        samples, computing = self.samples.copy(), self.computing.copy()
        if stats.whole is not None:
            samples = samples + np.where(stats.whole, self.held, 0)
            computing = computing + np.where(stats.whole, c["cost.seconds_per_sample"] * self.held / self.speed, 0)
        samples, computing = (np.where(stats.computed, x, 0.0) for x in (samples, computing))
        sending, received = np.zeros(n), np.zeros(n)
        for j in range(n):
            receivers = np.flatnonzero(heard[:, j])
            sending[j] = c["cost.latency"] * stats.messages[j]
            if links.rate is None or not self.uses_links:
                sending[j] += stats.bits[j] / c["cost.bandwidth"]
            for i in receivers:
                share = stats.bits[j] / len(receivers) if link_bits is None else link_bits[i, j]
                received[i] += share
                if links.rate is not None and self.uses_links:
                    sending[j] += share / links.rate[i, j]
        self.worked = self.worked + c["cost.joules_per_sample"] * samples + c["cost.joules_per_bit"] * stats.bits
        self.worked = self.worked + c["cost.joules_per_bit_received"] * received
        self.moved = c["cost.joules_per_metre"] * distance
        in_space = not c["network.graph"] and c["server.pattern"] in ("", "roadside")
        least = c["motion.dt"] if in_space or c["clock.joins"] else 0.0
        slowest = min(max(computing), c["cost.deadline"]) if self.uses_links else max(computing)
        self.seconds += c["motion.dt"] if c["clock.joins"] else max(least, slowest + max(sending))
