"use strict";
// Makes plotly's traces and layout of what the reader has picked.
(() => {
  const MANY = 12; // from more shown points on the lines are thin, and have bands only if they are asked for
  const CROWD = 40; // from more shown points on the lines are solid, and are drawn with fewer points
  const POINTS = 12000; // about so many points are then drawn in all
  const MOST_LINES = 600;
  const SIZE = { width: 300, height: 230 }; // of a panel, if there are several

  // The places of a line's values without its first one, if this is a rounding error on a logarithmic axis: models that are
  // equal at the start have such a distance, and a line from there would be all that one sees.
  const clear = (places, y, logarithmic) => (logarithmic && y[places[0]] < 1e-3 * y[places[1]] ? places.slice(1) : places);

  // One line: x and y without what is unknown, and a text for each of its points.
  const line = (x, y, style, hover, { most, low, ...scale }) => {
    const every = Math.max(1, Math.ceil(y.length / most));
    const places = Array.from(y, (_, e) => e).filter((e) => Number.isFinite(x[e]) && Number.isFinite(y[e]) && x[e] > low.x && y[e] > low.y);
    const all = clear(places, y, low.y === 0);
    const known = all.filter((_, i) => (all.length - 1 - i) % every === 0);
    return {
      type: "scatter",
      mode: known.length < 3 ? "lines+markers" : "lines",
      x: known.map((e) => x[e] / scale.x),
      y: known.map((e) => y[e] / scale.y),
      text: known.map((e) => hover(e)),
      hoverinfo: "text",
      showlegend: false,
      ...style,
    };
  };

  // A value with half the width of its interval, as text in the unit of the axis.
  const number = (metric, value, half) => {
    const text = (of) => (metric.share ? (of / metric.scale).toFixed(2) : mdfl.curves.rounded(of / metric.scale));
    const interval = Number.isFinite(half) ? ` ± ${text(half)}` : "";
    return Number.isFinite(value) ? text(value) + interval + (metric.share ? " %" : "") : "unknown";
  };

  // A seed of a point along the x axis: the rounds, or a recorded number; and the mean over seeds.
  const along = (of, key, p, seeds) => (key ? of.numbers.mean(key, p, seeds).mean : of.data.rounds.values);

  // What all lines of a point share: its numbers along the axes, its colour, and how they are told.
  const pointOf = (of, p, thin, most) => {
    const { numbers, state, study, data } = of;
    const [metric, axis] = [numbers.byKey[state.metric], numbers.byKey[state.x]];
    const low = { x: state.logx ? 0 : -Infinity, y: state.logy ? 0 : -Infinity }; // a logarithmic axis has no 0
    const scale = { x: axis?.scale ?? 1, y: metric.scale, most, low };
    const name = mdfl.curves.escape(study.points[p].label);
    // What one sees over a point of a line: whose it is, its value with its interval, and its place.
    const told = (whose, value, x, e) => {
      const place = axis ? [`${mdfl.curves.escape(axis.title)}: ${mdfl.curves.rounded(x / scale.x)}`] : [];
      return [`<b>${name}</b>${whose}`, `${mdfl.curves.escape(metric.title)}: ${value}`, ...place, `round ${data.rounds.values[e]}`].join("<br>");
    };
    const style = (role, width, more = {}, meta = {}) => {
      const dash = most === Infinity ? data.points[p].dash : "solid";
      return { line: { color: mdfl.visible(study.points[p].colour), width, dash }, meta: { role, point: study.points[p].id, ...meta }, ...more };
    };
    return { of, p, metric, scale, told, style, width: thin ? 1 : 2.2, seeds: numbers.seedsOf(p, state.ofseeds) };
  };

  // The mean over the picked seeds with its interval, and the lowest and the highest client.
  const meanLines = ({ of, p, metric, scale, told, style, width, seeds: picked }) => {
    const { numbers, state, data } = of;
    const seeds = numbers.counted(p, picked);
    const drawn = { band: [], ends: [], mean: [] };
    if (!seeds.length) return drawn;
    const x = along(of, state.x, p, seeds);
    const { mean, half } = numbers.mean(metric.key, p, seeds);
    const whose = seeds.length > 1 ? `, mean of ${seeds.length} seeds` : `, seed ${data.seeds[seeds[0]]}`;
    const text = (e) => told(whose, number(metric, mean[e], half?.[e]), x[e], e);
    if (state.mean) drawn.mean.push(line(x, mean, style("mean", width), text, scale));
    if (state.mean && half && of.bands()) {
      const { meta, line: of_line } = style("band", 0);
      drawn.band.push({ ...band(x, mean, half, metric, scale, state.logy), fillcolor: fade(of_line.color), meta });
    }
    for (const [key, symbol] of [["lowest", "triangle-down"], ["highest", "triangle-up"]]) {
      if (!state[key] || !metric[key]) continue;
      const ends = numbers.mean(metric[key], p, seeds).mean;
      const marked = style(key, 1.2, { mode: "lines+markers" });
      marked.marker = { symbol, size: 6, color: marked.line.color };
      drawn.ends.push(line(x, ends, marked, (e) => told(`, ${key} client${whose}`, number(metric, ends[e]), x[e], e), scale));
    }
    return drawn;
  };

  const seedLines = ({ of, p, metric, scale, told, style, seeds }) =>
    seeds.map((s) => {
      const [x, y] = [along(of, of.state.x, p, [s]), of.numbers.at(metric.key, p, s)];
      const seed = of.data.seeds[s];
      return line(x, y, style("seed", 1, { opacity: 0.55 }, { seed }), (e) => told(`, seed ${seed}`, number(metric, y[e]), x[e], e), scale);
    });

  const linesOf = (of, p, thin, most) => {
    const point = pointOf(of, p, thin, most);
    return { ...meanLines(point), faint: of.state.seeds ? seedLines(point) : [] };
  };

  const fade = (colour) => `rgba(${mdfl.parse(colour)},0.16)`;

  // The interval as an area. It ends at the bounds that the numbers themselves cannot cross.
  const band = (x, mean, half, metric, scale, logarithmic) => {
    const places = mean.map((_, e) => e).filter((e) => Number.isFinite(mean[e] + half[e] + x[e]));
    const known = clear(places, mean, logarithmic);
    const tiny = Math.min(...known.map((e) => mean[e]).filter((m) => m > 0)) / 10;
    const floor = logarithmic ? tiny : metric.positive ? 0 : -Infinity;
    const low = known.map((e) => Math.max(mean[e] - half[e], Math.min(floor, mean[e])) / scale.y);
    const high = known.map((e) => Math.min(mean[e] + half[e], metric.share ? 1 : Infinity) / scale.y);
    const along = known.map((e) => x[e] / scale.x);
    const [xs, ys] = [[...along, ...along.slice().reverse()], [...high, ...low.reverse()]];
    return { type: "scatter", mode: "lines", fill: "toself", x: xs, y: ys, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  };

  // The range of an axis: all that is drawn, with a margin, and within the bounds of the metric.
  const range = (values, logarithmic, [low, high], margin) => {
    const known = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0)).map((value) => (logarithmic ? Math.log10(value) : value));
    if (!known.length) return undefined;
    const [least, most] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    const room = margin * (most - least) || (margin && (logarithmic ? 0.1 : Math.abs(most) * 0.1 || 1));
    return logarithmic ? [least - room, Math.min(most + room, Math.log10(high))] : [Math.max(least - room, low), Math.min(most + room, high)];
  };

  const picture = (of) => {
    const { state, numbers, data } = of;
    const [metric, axis] = [numbers.byKey[state.metric], numbers.byKey[state.x]];
    const [shown, facets] = [of.shown(), of.facets()];
    const most = shown.length > CROWD ? Math.max(40, Math.ceil(POINTS / shown.length)) : Infinity;
    const drawn = facets.map(({ members }) => {
      const parts = members.map((p) => linesOf(of, p, members.length > MANY, most));
      return ["band", "faint", "ends", "mean"].flatMap((kind) => parts.flatMap((part) => part[kind])).slice(-MOST_LINES);
    });
    const traces = drawn.flat();
    const target = data.target?.key === state.metric && state.target ? data.target.value / metric.scale : null;
    const bounds = [metric.positive ? 0 : -Infinity, metric.share ? 100 : Infinity];
    const ys = traces.filter((trace) => !state.logy || trace.fill === undefined).flatMap((trace) => trace.y);
    const side = (title, logarithmic, found) => ({ title: { text: mdfl.curves.escape(title) }, type: logarithmic ? "log" : "linear", ...(found && { range: found }) });
    const axes = {
      xaxis: side(axis?.title ?? "round", state.logx, range(traces.flatMap((trace) => trace.x), state.logx, [-Infinity, Infinity], 0.012)),
      yaxis: side(metric.title, state.logy, range(target === null ? ys : [...ys, target], state.logy, bounds, 0.05)),
    };
    const uirevision = JSON.stringify([state.metric, state.x, state.logx, state.logy]);
    if (facets.length > 1) {
      const levels = target === null ? [] : [[target, "soft"]];
      const panels = facets.map(({ title }, k) => ({ title: mdfl.curves.escape(title), traces: drawn[k], levels, ...axes }));
      const [placed, layout] = mdfl.arrange(panels, of.plot.clientWidth, SIZE);
      return { traces: placed, layout: { ...layout, uirevision } };
    }
    const layout = {
      ...axes,
      height: mdfl.printed() ? 300 : Math.min(480, Math.max(340, innerHeight * 0.6)),
      margin: { l: 56, r: 12, t: 12, b: 48 },
      hovermode: "closest",
      showlegend: false,
      uirevision,
    };
    if (target !== null) {
      const ink = mdfl.colours().soft;
      layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: target, y1: target, line: { color: ink, width: 1, dash: "dash" } }];
      const y = state.logy ? Math.log10(target) : target;
      layout.annotations = [{ xref: "paper", x: 0, xanchor: "left", y, yanchor: "bottom", showarrow: false, text: `target ${Number(target.toPrecision(4))} %`, font: { color: ink, size: 12 }, bgcolor: mdfl.colours().paper }];
    }
    return { traces, layout };
  };

  // A sentence with the means at the last evaluation that all shown points have, the highest first: the curves in words.
  const summary = (of) => {
    const { numbers, state, study, data } = of;
    const metric = numbers.byKey[state.metric];
    const means = of.shown().flatMap((p) => {
      const seeds = numbers.counted(p, numbers.seedsOf(p, state.ofseeds));
      return seeds.length ? [{ label: study.points[p].label, ...numbers.mean(metric.key, p, seeds) }] : [];
    });
    const known = means.filter(({ mean }) => mean.some(Number.isFinite));
    if (!known.length) return `${metric.title}: nothing is picked that has it.`;
    const last = Array.from(data.rounds.values).findLastIndex((_, e) => known.every(({ mean }) => Number.isFinite(mean[e])));
    if (last < 0) return `${metric.title}: the picked points have no evaluation in common.`;
    known.sort((a, b) => b.mean[last] - a.mean[last]);
    const told = ({ label, mean, half }) => `${label}: ${number(metric, mean[last], half?.[last])}`;
    const some = known.length > 5 ? [...known.slice(0, 3).map(told), "…", told(known.at(-1))] : known.map(told);
    const title = metric.title[0].toUpperCase() + metric.title.slice(1).replace(" (%)", "");
    const bits = [metric, numbers.byKey[state.x]].some((of) => of?.title.startsWith("megabits")) ? " 8 megabits are 1 MB." : "";
    return `${title} at round ${data.rounds.values[last]}: ${some.join("; ")}.${bits}`;
  };

  mdfl.curveLines = { MANY, SIZE, picture, summary };
})();

// The numbers behind the curves (report/panels/curves.py): means and intervals over the picked seeds, and single
// seeds; and texts for them.
(() => {
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const rounded = (value) => (Math.abs(value) >= 1e-4 || value === 0 ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value.toExponential(2));

  // The numbers of the metrics, at [point, seed, evaluation].
  class Numbers {
    constructor(data) {
      Object.assign(this, data);
      this.byKey = Object.fromEntries(data.metrics.map((metric) => [metric.key, metric]));
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

// The curves that the reader explores: any recorded metric against any axis, of any points and seeds. The data are
// those of report/panels/curves.py. What the reader has chosen is kept in the address after "#", so that a link shows it again.
(() => {
  // What is drawn at first; the address holds only what differs from this.
  const first = (data, given) => ({
    metric: given.metric ?? data.start,
    x: given.x ?? data.axis,
    logx: false,
    logy: given.logy ?? false,
    mean: true,
    band: null, // null: as long as few points are shown
    seeds: false,
    lowest: false,
    highest: false,
    target: true,
    points: new Set(data.points.keys()),
    ofseeds: new Set(data.seeds.keys()),
  });

  const LONG = 60; // a longer list scrolls

  class Explorer {
    constructor(element, data, study, given) {
      this.numbers = new mdfl.curves.Numbers(data);
      Object.assign(this, { data, study, name: element.closest(".panel").id, start: () => first(data, given) });
      this.state = this.start();
      this.restore();
      this.build(element);
      mdfl.onWidth(this.plot, () => mdfl.columns(this.facets(), this.plot.clientWidth, mdfl.curveLines.SIZE), () => this.draw());
      addEventListener("hashchange", () => {
        if (!location.hash.includes(`${this.name}.`)) return;
        this.state = this.start();
        this.restore();
        this.update();
      });
    }

    sizes() {
      return { points: this.data.points.length, ofseeds: this.data.seeds.length };
    }
    restore() {
      const given = new URLSearchParams(location.hash.slice(1));
      for (const key of Object.keys(this.state)) {
        const text = given.get(`${this.name}.${key}`);
        if (text === null) continue;
        if (key in this.sizes()) this.state[key] = mdfl.curves.read(text, this.sizes()[key]);
        else this.state[key] = key === "metric" || key === "x" ? text : text === "1";
      }
      const known = this.numbers.byKey;
      if (!known[this.state.metric]) this.state.metric = this.start().metric;
      if (!known[this.state.x]?.axis) this.state.x = this.state.x && this.start().x;
    }
    save() {
      const address = new URLSearchParams(location.hash.slice(1));
      for (const key of [...address.keys()]) if (!key.includes(".") || key.startsWith(`${this.name}.`)) address.delete(key);
      const [usual, sizes] = [this.start(), this.sizes()];
      for (const [key, value] of Object.entries(this.state)) {
        const text = (of) => (key in sizes ? mdfl.curves.told(of, sizes[key]) : typeof of === "boolean" ? String(+of) : of);
        if (text(value) !== text(usual[key])) address.set(`${this.name}.${key}`, text(value));
      }
      history.replaceState(null, "", `#${address}`);
    }
    set(key, value) {
      this.state[key] = value;
      this.save();
      this.update();
    }
    update() {
      this.refresh.forEach((again) => again());
      this.draw();
    }

    build(element) {
      const { make } = mdfl;
      this.refresh = [];
      this.plot = make("div", { class: "plot" });
      this.told = make("p", { class: "told", role: "status" });
      const many = this.data.points.length > 1;
      element.replaceChildren(
        make("div", { class: "explorer" }, this.axes(), this.lines(), this.plot, this.told, ...(many ? [this.points()] : []), ...this.folded()),
      );
    }
    axes() {
      const { make } = mdfl;
      const option = (metric) => make("option", { value: metric.key, text: metric.title });
      const metrics = this.data.metrics;
      const metric = this.select("metric", metrics.filter((of) => !of.further).map(option));
      const further = metrics.filter((of) => of.further);
      if (further.length) metric.append(make("optgroup", { label: "Further numbers" }, ...further.map(option)));
      metric.value = this.state.metric;
      const x = this.select("x", [make("option", { value: "", text: "rounds" }), ...metrics.filter((of) => of.axis).map(option)]);
      const again = make("button", { type: "button", text: "Reset", onclick: () => ((this.state = this.start()), this.save(), this.update()) });
      const row = [make("label", {}, "Metric", metric), make("label", {}, "against", x), this.tick("logx", "log x"), this.tick("logy", "log y"), again];
      return make("div", { class: "row tools" }, ...row);
    }
    lines() {
      const seeds = this.data.seeds.length > 1;
      const band = this.tick("band", "95 % interval", () => this.bands());
      const [lowest, highest] = [this.tick("lowest", "lowest client ▼"), this.tick("highest", "highest client ▲")];
      const target = this.tick("target", "target");
      const refresh = () => {
        const metric = this.numbers.byKey[this.state.metric];
        lowest.hidden = !metric.lowest;
        highest.hidden = !metric.highest;
        target.hidden = this.data.target?.key !== metric.key;
      };
      refresh();
      this.refresh.push(refresh);
      const ticks = [this.tick("mean", "mean"), ...(seeds ? [band, this.tick("seeds", "single seeds")] : []), lowest, highest, target];
      return mdfl.make("div", { class: "row tools", role: "group", "aria-label": "Lines" }, ...ticks);
    }
    select(key, options) {
      const element = mdfl.make("select", { onchange: () => this.set(key, element.value) }, ...options);
      element.value = this.state[key];
      this.refresh.push(() => (element.value = this.state[key]));
      return element;
    }
    tick(key, text, value = () => this.state[key]) {
      const box = mdfl.make("input", { type: "checkbox", name: key, onchange: () => this.set(key, box.checked) });
      box.checked = value();
      this.refresh.push(() => (box.checked = value()));
      return mdfl.make("label", {}, box, text);
    }

    // A list to pick from, with a filter and buttons for all and none of what the filter shows.
    list(key, texts, swatch = () => null) {
      const { make } = mdfl;
      const boxes = texts.map((text, i) => {
        const toggle = () => this.set(key, new Set([...this.state[key]].filter((of) => of !== i).concat(box.checked ? [i] : [])));
        const box = make("input", { type: "checkbox", name: key, value: i, onchange: toggle });
        return { box, text, row: make("label", {}, box, ...[swatch(i)].filter(Boolean), make("span", { text })) };
      });
      const refresh = () => boxes.forEach(({ box }, i) => (box.checked = this.state[key].has(i)));
      refresh();
      this.refresh.push(refresh);
      const filter = make("input", { type: "search", placeholder: "filter", "aria-label": "Filter the list" });
      filter.addEventListener("input", () => {
        const parts = (text) => text.toLowerCase().split(/[\s,]+/).filter(Boolean);
        const fits = (word, part) => (isNaN(word) ? part.startsWith(word) : part === word); // 7 is not 70
        const words = parts(filter.value);
        for (const { row, text } of boxes) row.hidden = !words.every((word) => parts(text).some((part) => fits(word, part)));
      });
      const pick = (chosen) => {
        const shown = new Set([...boxes.keys()].filter((i) => !boxes[i].row.hidden));
        const others = filter.value && chosen !== "only" ? [...this.state[key]].filter((i) => !shown.has(i)) : [];
        this.set(key, new Set([...others, ...(chosen === "none" ? [] : shown)]));
      };
      const button = (how, text) => make("button", { type: "button", text, onclick: () => pick(how) });
      const buttons = [button("all", "all"), button("none", "none"), button("only", "only these")];
      const many = texts.length > mdfl.curveLines.MANY;
      const tools = many ? [make("div", { class: "row tools" }, filter, ...buttons)] : [];
      const kind = ["row list", ...(many ? ["many"] : []), ...(texts.length > LONG ? ["long"] : [])].join(" ");
      return [...tools, make("div", { class: kind }, ...boxes.map(({ row }) => row))];
    }
    points() {
      const swatch = (p) => {
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        svg.setAttribute("class", "swatch");
        svg.setAttribute("aria-hidden", "true");
        const dashes = { solid: "none" }[this.data.points[p].dash] ?? this.data.points[p].dash.replaceAll("px", "");
        for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": dashes })) line.setAttribute(name, value);
        svg.append(line);
        const paint = () => line.setAttribute("stroke", mdfl.visible(this.study.points[p].colour));
        paint();
        (this.paint ??= []).push(paint);
        return svg;
      };
      const legend = mdfl.make("legend", { text: "Sweep points" });
      return mdfl.make("fieldset", {}, legend, ...this.list("points", this.study.points.map((point) => point.full), swatch));
    }
    folded() {
      const { make } = mdfl;
      const fold = (text, key, texts) => {
        const open = mdfl.curves.told(this.state[key], texts.length) !== mdfl.curves.told(this.start()[key], texts.length);
        return make("details", { open }, make("summary", { text }), make("fieldset", {}, make("legend", { text }), ...this.list(key, texts)));
      };
      return this.data.seeds.length > 1 ? [fold("Seeds", "ofseeds", this.data.seeds.map((seed) => `seed ${seed}`))] : [];
    }

    shown() {
      return [...this.state.points].sort((a, b) => a - b);
    }
    // The panels with their shown points; there are several where lines of one panel could not be told apart.
    facets() {
      const of = this.data.facets.map(({ title, points }) => ({ title, members: points.filter((p) => this.state.points.has(p)) }));
      return of.filter(({ members }) => members.length);
    }
    bands() {
      const most = Math.max(0, ...this.facets().map(({ members }) => members.length));
      return this.data.seeds.length > 1 && (this.state.band ?? most <= mdfl.curveLines.MANY);
    }
    draw() {
      this.paint?.forEach((again) => again());
      this.told.textContent = mdfl.curveLines.summary(this);
      const { traces, layout } = mdfl.curveLines.picture(this);
      mdfl.plot(this.plot, traces, layout);
    }
  }

  mdfl.register("curves", (element, data, study) => {
    const explorer = (element.explorer = new Explorer(element, data, study, data.start_with ?? {}));
    return () => explorer.draw();
  });

  addEventListener("DOMContentLoaded", () => {
    const name = [...new URLSearchParams(location.hash.slice(1)).keys()].find((key) => key.includes("."))?.split(".")[0];
    if (name) document.getElementById(name)?.scrollIntoView();
  });
})();
