"use strict";
// The numbers behind the curves (report/explorer.py): means and intervals over the picked seeds, single seeds and clients;
// and texts for them.
(() => {
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const rounded = (value) => (Math.abs(value) >= 1e-4 || value === 0 ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value.toExponential(2));

  // The numbers of the metrics, at [point, seed, evaluation] and of single clients.
  class Numbers {
    constructor(data) {
      Object.assign(this, data);
      this.byKey = Object.fromEntries(data.metrics.map((metric) => [metric.key, metric]));
      this.of = Object.fromEntries(Object.keys(data.clients.of).map((key) => [key, this.starts(data.clients.of[key].points)]));
    }
    starts(points) {
      let next = 0;
      return points.map((point) => {
        const start = next;
        if (point) next += point.clients * point.at.values.length;
        return start;
      });
    }
    at(key, p, s) {
      const { shape, values } = this.values[key];
      const start = (p * shape[1] + s) * shape[2];
      return values.subarray(start, start + shape[2]);
    }
    // The mean over seeds at each evaluation and half the width of its 95 % interval. It is NaN where a seed has no value.
    mean(key, p, seeds) {
      const [rows, n] = [seeds.map((s) => this.at(key, p, s)), seeds.length];
      const mean = Array.from(this.rounds.values, (_, e) => rows.reduce((sum, row) => sum + row[e], 0) / n);
      if (n < 2) return { mean, half: null };
      const spread = mean.map((m, e) => Math.sqrt(rows.reduce((sum, row) => sum + (row[e] - m) ** 2, 0) / (n - 1)));
      return { mean, half: spread.map((std) => (this.quantile[n] * std) / Math.sqrt(n)) };
    }
    // One client's numbers in the first seed at the evaluations {at}, or null.
    client(key, p, i) {
      const how = this.clients.of[key]?.points[p];
      if (!how || i >= how.clients) return null;
      const at = how.at.values;
      const start = this.of[key][p] + i * at.length;
      const stored = this.clients.of[key].values.values.subarray(start, start + at.length);
      const numbers = Array.from(stored, (level) => (level === 65535 ? NaN : how.low + how.step * level));
      return { at, values: how.log ? numbers.map(Math.exp) : numbers };
    }
    numClients(key) {
      return Math.max(0, ...(this.clients.of[key]?.points ?? []).map((point) => point?.clients ?? 0));
    }
    // Of seeds, those whose runs have not diverged, which a mean is over; all if every one has.
    counted(p, seeds) {
      const kept = seeds.filter((s) => !this.points[p].diverged.includes(s));
      return kept.length ? kept : seeds;
    }
    // The sweep point's seeds among the picked ones.
    seedsOf(p, picked) {
      return Array.from(this.points[p].seeds.values).filter((s) => picked.has(s));
    }
  }

  // A set of indices as text, "0,2-5", and back. "all" is all of {count}.
  const told = (set, count) => {
    if (set.size === count) return "all";
    const sorted = [...set].sort((a, b) => a - b);
    const runs = [];
    for (const i of sorted) {
      if (runs.length && runs.at(-1)[1] === i - 1) runs.at(-1)[1] = i;
      else runs.push([i, i]);
    }
    return runs.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(",");
  };
  const read = (text, count) => {
    const all = Array.from({ length: count }, (_, i) => i);
    if (text === "all") return new Set(all);
    const runs = text.split(",").map((run) => run.split("-").map(Number));
    return new Set(all.filter((i) => runs.some(([a, b = a]) => text !== "" && a <= i && i <= b)));
  };

  mdfl.curves = { Numbers, escape, rounded, told, read };
})();
