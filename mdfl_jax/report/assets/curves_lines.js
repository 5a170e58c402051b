"use strict";
// Makes plotly's traces and layout of what the reader has picked in an explorer (assets/curves.js).
(() => {
  const MANY = 12; // from more shown points on the lines are thin, and have bands only if they are asked for
  const CROWD = 40; // from more shown points on the lines are solid, and are drawn with fewer points
  const POINTS = 12000; // about so many points are then drawn in all
  const MOST_LINES = 600;

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

  // The picked clients in the point's first seed.
  const clientLines = ({ of, p, metric, scale, told, style }) => {
    const first = of.data.points[p].seeds.values[0];
    const all = first === undefined ? [] : along(of, of.state.x, p, [first]);
    return [...of.state.clients].flatMap((i) => {
      const client = of.numbers.client(metric.key, p, i);
      if (!client) return [];
      const x = Array.from(client.at, (e) => all[e]);
      const whose = `, client ${i}, seed ${of.data.seeds[first]}`;
      const text = (k) => told(whose, number(metric, client.values[k]), x[k], client.at[k]);
      return [line(x, client.values, style("client", 1, { opacity: 0.75 }, { client: i }), text, scale)];
    });
  };

  const linesOf = (of, p, thin, most) => {
    const point = pointOf(of, p, thin, most);
    return { ...meanLines(point), faint: [...(of.state.seeds ? seedLines(point) : []), ...clientLines(point)] };
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
    const metric = numbers.byKey[state.metric];
    const axis = numbers.byKey[state.x];
    const shown = of.shown();
    const most = shown.length > CROWD ? Math.max(40, Math.ceil(POINTS / shown.length)) : Infinity;
    const parts = shown.map((p) => linesOf(of, p, shown.length > MANY, most));
    const traces = ["band", "faint", "ends", "mean"].flatMap((kind) => parts.flatMap((part) => part[kind])).slice(-MOST_LINES);
    const layout = {
      height: Math.min(480, Math.max(340, innerHeight * 0.6)),
      margin: { l: 56, r: 12, t: 12, b: 48 },
      hovermode: "closest",
      showlegend: false,
      uirevision: JSON.stringify([state.metric, state.x, state.logx, state.logy]),
    };
    const target = data.target?.key === state.metric && state.target ? data.target.value / metric.scale : null;
    const bounds = [metric.positive ? 0 : -Infinity, metric.share ? 100 : Infinity];
    const ys = traces.filter((trace) => !state.logy || trace.fill === undefined).flatMap((trace) => trace.y);
    const side = (title, logarithmic, found) => ({ title: { text: mdfl.curves.escape(title) }, type: logarithmic ? "log" : "linear", ...(found && { range: found }) });
    layout.yaxis = side(metric.title, state.logy, range(target === null ? ys : [...ys, target], state.logy, bounds, 0.05));
    layout.xaxis = side(axis?.title ?? "round", state.logx, range(traces.flatMap((trace) => trace.x), state.logx, [-Infinity, Infinity], 0.012));
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

  mdfl.curveLines = { MANY, picture, summary };
})();
