"use strict";
// The drawing of one map on a canvas. `view` is {point, context, width, height, colour}, in pixels of the style sheet;
// `shown` has the switches by name, `time`, `trail` (rounds), `smooth` and `focus`, the client that is looked at.
mdfl.map = mdfl.map || {};

// Colours that colour-blind readers tell apart. They are readable on a light page and on a dark one.
mdfl.map.MARKS = { server: "#d55e00", relay: "#cc79a7", centre: "#009e73" };
mdfl.map.CLASSES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c564b", "#f0e442", "#999999", "#332288"];
mdfl.map.VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

mdfl.map.classColour = (c, classes) =>
  c < mdfl.map.CLASSES.length ? mdfl.map.CLASSES[c] : `hsl(${Math.round((360 * c * 7) / classes) % 360} 55% ${40 + (20 * c) % 37}%)`;

// Returns the colour of a share in [0, 1] on the scale viridis, and the colour of a text on it.
mdfl.map.shade = (share) => {
  const stops = mdfl.map.VIRIDIS, at = Math.min(1, Math.max(0, share)) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
  const part = (stop, p) => parseInt(stop.slice(1 + 2 * p, 3 + 2 * p), 16);
  const rgb = [0, 1, 2].map((p) => Math.round(part(stops[k], p) + (at - k) * (part(stops[k + 1], p) - part(stops[k], p))));
  return { fill: `rgb(${rgb})`, ink: mdfl.inkOn(rgb) };
};

// Returns the function from places of the world to pixels; y points upwards in the world.
mdfl.map.onto = ({ point, width, height }, marker) => {
  const { low, high } = point.world, margin = marker + 12;
  const scale = Math.min((width - 2 * margin) / (high[0] - low[0]), (height - 2 * margin) / (high[1] - low[1]));
  const left = (width - scale * (high[0] - low[0])) / 2, top = (height - scale * (high[1] - low[1])) / 2;
  return { scale, x: (x) => left + scale * (x - low[0]), y: (y) => top + scale * (high[1] - y) };
};

mdfl.map.MANY = 1000; // of more clients, each is a dot without an edge

mdfl.map.markerSize = ({ point, width }) =>
  point.clients > mdfl.map.MANY ? 1.8 : Math.max(2.5, Math.min(point.clients <= 50 ? 9.5 : point.clients <= 120 ? 6 : 4, (width / 40) * (point.clients <= 50 ? 1 : 0.6)));

// Returns how far clients at one place are drawn aside of it, {client: [dx, dy]}, so that none hides another.
mdfl.map.aside = ({ point, xy }, to, r) => {
  const together = new Map(), found = new Map();
  for (let i = 0; i < point.clients; i++) {
    const place = `${Math.round(to.x(xy[2 * i]))},${Math.round(to.y(xy[2 * i + 1]))}`;
    together.set(place, [...(together.get(place) || []), i]);
  }
  for (const group of together.values())
    if (group.length > 1) {
      const away = r / Math.sin(Math.PI / Math.max(2, group.length));
      group.forEach((i, k) => found.set(i, [away * Math.cos((2 * Math.PI * k) / group.length), away * Math.sin((2 * Math.PI * k) / group.length)]));
    }
  return found;
};

mdfl.map.draw = (view, shown, colour) => {
  const { point, context: c } = view, theme = mdfl.colours(), r = mdfl.map.markerSize(view);
  const to = mdfl.map.onto(view, r), frame = mdfl.map.nearest(point, shown.time);
  view.xy = mdfl.map.places(point, shown.time, shown.smooth, view.xy);
  const here = (i) => !Number.isNaN(view.xy[2 * i]), aside = r >= 7 ? mdfl.map.aside(view, to, r) : new Map();
  const X = (i) => to.x(view.xy[2 * i]) + (aside.has(i) ? aside.get(i)[0] : 0), Y = (i) => to.y(view.xy[2 * i + 1]) + (aside.has(i) ? aside.get(i)[1] : 0);
  Object.assign(view, { X, Y, here, r, frame, links: mdfl.map.linksAt(point, frame), row: mdfl.map.evaluation(point, shown.time) });
  c.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  c.clearRect(0, 0, view.width, view.height);
  c.lineJoin = c.lineCap = "round";
  const pen = (stroke, width, alpha = 1, dash = []) => {
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.globalAlpha = alpha;
    c.setLineDash(dash);
  };
  const context = { view, c, theme, to, frame, shown, pen, colour };
  mdfl.map.ground(context);
  if (shown.ranges) mdfl.map.ranges(context);
  if (shown.trails) mdfl.map.trails(context);
  if (shown.links) mdfl.map.links(context);
  if (shown.goals) mdfl.map.goals(context);
  if (shown.meetings) mdfl.map.meetings(context);
  mdfl.map.clients(context);
  c.globalAlpha = 1;
};

// The ground: the walls or the grid, the streets, the road-side units and the scale.
mdfl.map.ground = ({ view, c, theme, to, shown, pen }) => {
  const { kind, low, high, walls, units, unit_range: range, streets } = view.point.world;
  const left = to.x(low[0]), right = to.x(high[0]), bottom = to.y(low[1]), top = to.y(high[1]);
  if (kind === "grid") {
    const every = Math.max(1, Math.ceil((high[0] - low[0]) / 30));
    c.beginPath();
    for (let x = low[0]; x <= high[0]; x += every) c.moveTo(to.x(x), top), c.lineTo(to.x(x), bottom);
    for (let y = low[1]; y <= high[1]; y += every) c.moveTo(left, to.y(y)), c.lineTo(right, to.y(y));
    pen(theme.rule, 1, 0.7);
    c.stroke();
  }
  if (shown.streets && streets.shape[0]) {
    c.beginPath();
    for (let k = 0; k < streets.values.length; k += 4) {
      c.moveTo(to.x(streets.values[k]), to.y(streets.values[k + 1]));
      c.lineTo(to.x(streets.values[k + 2]), to.y(streets.values[k + 3]));
    }
    pen(theme.rule, 2.5);
    c.stroke();
  }
  if (walls && kind === "plane") {
    pen(theme.soft, 1.2, 0.8);
    c.strokeRect(left, top, right - left, bottom - top);
  }
  for (const [x, y] of units) {
    c.fillStyle = mdfl.map.MARKS.server;
    if (range !== null) {
      c.beginPath();
      c.arc(to.x(x), to.y(y), range * to.scale, 0, 2 * Math.PI);
      c.globalAlpha = 0.12;
      c.fill();
      pen(mdfl.map.MARKS.server, 1, 0.8);
      c.stroke();
    }
    c.globalAlpha = 1;
    c.beginPath();
    for (const [dx, dy] of [[0, -9], [8, 6], [-8, 6]]) c.lineTo(to.x(x) + dx, to.y(y) + dy);
    c.fill();
  }
  if (kind === "plane") {
    const wanted = (high[0] - low[0]) / 5, power = 10 ** Math.floor(Math.log10(wanted));
    const length = power * [5, 2, 1].find((k) => k * power <= wanted);
    const y = view.height - 5, x = Math.max(6, left);
    pen(theme.ink, 1.5);
    c.beginPath();
    c.moveTo(x, y - 3), c.lineTo(x, y), c.lineTo(x + length * to.scale, y), c.lineTo(x + length * to.scale, y - 3);
    c.stroke();
    mdfl.map.text(c, length >= 1000 ? `${length / 1000} km` : `${length} m`, x + length * to.scale + 6, y, theme.ink, "left", "alphabetic", theme.paper);
  }
};

mdfl.map.text = (c, text, x, y, ink, align, base, halo, size = 11) => {
  c.font = `${size}px system-ui, sans-serif`;
  c.textAlign = align;
  c.textBaseline = base;
  c.globalAlpha = 1;
  if (halo) {
    c.setLineDash([]);
    [c.strokeStyle, c.lineWidth] = [halo, 3];
    c.strokeText(text, x, y);
  }
  c.fillStyle = ink;
  c.fillText(text, x, y);
};

// The area in which clients are heard: one shape of all discs, so that many of them do not darken the map.
mdfl.map.ranges = ({ view, c, theme, to, frame, shown, pen }) => {
  const { point, X, Y, here } = view, { radius } = point.world;
  if (radius === null || point.world.kind === "circle" || radius * to.scale > 4 * view.width) return;
  c.beginPath();
  for (let i = 0; i < point.clients; i++)
    if (here(i) && mdfl.map.isPresent(point, frame, i)) {
      c.moveTo(X(i) + radius * to.scale, Y(i));
      c.arc(X(i), Y(i), radius * to.scale, 0, 2 * Math.PI);
    }
  c.fillStyle = theme.accent;
  c.globalAlpha = 0.07;
  c.fill();
  if (point.clients <= 60) {
    pen(theme.soft, 1, 0.3);
    c.stroke();
  }
  if (shown.focus !== null && here(shown.focus)) {
    c.beginPath();
    c.arc(X(shown.focus), Y(shown.focus), radius * to.scale, 0, 2 * Math.PI);
    pen(theme.accent, 1.6);
    c.stroke();
  }
};

// The paths of the last rounds, the older the fainter; before the first round, the paths that come.
mdfl.map.trails = ({ view, c, to, shown, pen }) => {
  const { point } = view, { coordinate, jumps } = mdfl.map, array = point.position;
  const way = (i, from, end, last) => {
    let ax = NaN, ay = NaN;
    for (let f = from; f <= end + (last ? 1 : 0); f++) {
      const x = f > end ? view.xy[2 * i] : coordinate(point, array, i, 0, f), y = f > end ? view.xy[2 * i + 1] : coordinate(point, array, i, 1, f);
      if (Number.isNaN(ax + x) || jumps(point, ax, ay, x, y)) c.moveTo(to.x(x), to.y(y));
      else c.lineTo(to.x(x), to.y(y));
      [ax, ay] = [x, y];
    }
  };
  const [now] = mdfl.map.frameAt(point, shown.time), length = Math.max(1, Math.round(shown.trail / point.stride));
  const faint = shown.focus !== null && view.point.mobile.values[shown.focus] ? 0.35 : 1;
  if (shown.time === 0) {
    c.beginPath();
    for (const i of point.mobiles) way(i, 0, Math.min(length, point.times - 1), false);
    pen(view.colour, 1.3, 0.55 * faint, [2, 4]);
    c.stroke();
    return;
  }
  const BANDS = 4, first = Math.max(0, now - length);
  for (let band = 0; band < BANDS; band++) {
    const from = first + Math.round((band * (now - first)) / BANDS), end = first + Math.round(((band + 1) * (now - first)) / BANDS);
    c.beginPath();
    for (const i of point.mobiles) if (end > from || band === BANDS - 1) way(i, from, end, band === BANDS - 1);
    pen(view.colour, 1.7, (0.2 + 0.2 * band) * faint);
    c.stroke();
  }
  if (faint < 1) {
    c.beginPath();
    way(shown.focus, first, now, true);
    pen(view.colour, 2.4);
    c.stroke();
  }
};

// The links of the round. A link that only one of the two clients hears is dashed.
mdfl.map.links = ({ view, c, theme, shown, pen }) => {
  const { links, X, Y, here } = view, many = links.count > 600, some = links.count > 150;
  for (const [list, dash] of [[links.pairs, []], [links.oneWay, [3, 4]]]) {
    if (!list.length) continue;
    const wrapped = (a, b) => mdfl.map.jumps(view.point, view.xy[2 * a], view.xy[2 * a + 1], view.xy[2 * b], view.xy[2 * b + 1]);
    const line = (wanted) => {
      c.beginPath();
      for (let e = 0; e < list.length; e += 2) {
        const a = list[e], b = list[e + 1];
        if (wanted(a, b) && here(a) && here(b) && !wrapped(a, b)) c.moveTo(X(a), Y(a)), c.lineTo(X(b), Y(b));
      }
      c.stroke();
    };
    pen(theme.ink, many ? 0.8 : some ? 1 : 1.3, (many ? 0.4 : some ? 0.45 : 0.6) * (shown.focus === null ? 1 : 0.4), dash);
    line(() => true);
    if (shown.focus === null) continue;
    pen(theme.accent, 2.2, 1, dash);
    line((a, b) => a === shown.focus || b === shown.focus);
  }
};

// Where clients are going, and the centres of clusters.
mdfl.map.goals = ({ view, c, to, frame, shown, pen }) => {
  const { point, X, Y, here } = view, { destination, centre } = point, { coordinate } = mdfl.map;
  const places = (array) => (array && frame < array.shape[2] ? Array.from({ length: array.shape[0] }, (_, i) => [coordinate(point, array, i, 0, frame), coordinate(point, array, i, 1, frame)]) : []);
  places(destination).forEach(([x, y], i) => {
    if (Number.isNaN(x) || !here(i) || (shown.focus !== null && shown.focus !== i)) return;
    const px = to.x(x), py = to.y(y);
    if (point.mobiles.length <= 20 || shown.focus === i) {
      pen(view.colour, 1, 0.75, [4, 4]);
      c.beginPath();
      c.moveTo(X(i), Y(i)), c.lineTo(px, py);
      c.stroke();
    }
    pen(view.colour, 2);
    c.beginPath();
    c.moveTo(px - 4, py - 4), c.lineTo(px + 4, py + 4), c.moveTo(px - 4, py + 4), c.lineTo(px + 4, py - 4);
    c.stroke();
  });
  for (const [x, y] of places(centre)) {
    if (Number.isNaN(x)) continue;
    const px = to.x(x), py = to.y(y);
    pen(mdfl.map.MARKS.centre, 3);
    c.beginPath();
    c.moveTo(px - 7, py), c.lineTo(px + 7, py), c.moveTo(px, py - 7), c.lineTo(px, py + 7);
    c.stroke();
  }
};

// Meetings with the server, at the nearest road-side unit or in the middle of the circle, and what others carry.
mdfl.map.meetings = ({ view, c, theme, to, frame, pen }) => {
  const { point, X, Y, here, r } = view, { units, kind } = point.world;
  const middle = kind === "circle" && point.met_server ? [[0, 0]] : units;
  if (kind === "circle" && point.met_server) {
    c.fillStyle = mdfl.map.MARKS.server;
    c.globalAlpha = 1;
    c.fillRect(to.x(0) - 11, to.y(0) - 11, 22, 22);
    mdfl.map.text(c, "S", to.x(0), to.y(0) + 1, "#ffffff", "center", "middle", null, 13);
  }
  for (let i = 0; i < point.clients; i++) {
    if (!here(i) || !mdfl.map.bit(point.met_server, frame, i)) continue;
    pen(mdfl.map.MARKS.server, 2, 0.9);
    c.beginPath();
    if (middle.length) {
      const away = ([x, y]) => (to.x(x) - X(i)) ** 2 + (to.y(y) - Y(i)) ** 2;
      const [x, y] = middle.reduce((a, b) => (away(b) < away(a) ? b : a));
      c.moveTo(X(i), Y(i)), c.lineTo(to.x(x), to.y(y));
    }
    c.stroke();
    c.beginPath();
    c.arc(X(i), Y(i), r + 3.5, 0, 2 * Math.PI);
    c.stroke();
  }
  for (const [name, list] of view.relays || []) {
    if (frame >= list.shape[0]) continue;
    for (let i = 0; i < point.clients; i++) {
      const carrier = list.values[frame * point.clients + i];
      if (carrier < 0 || carrier === i || !here(i) || !here(carrier)) continue;
      const ends = name.includes("upload") ? [i, carrier] : [carrier, i];
      mdfl.map.arrow(c, pen, X(ends[0]), Y(ends[0]), X(ends[1]), Y(ends[1]), r + 2);
    }
  }
};

// A bent arrow, so that it does not cover the link of the same two clients.
mdfl.map.arrow = (c, pen, ax, ay, bx, by, gap) => {
  const dx = bx - ax, dy = by - ay, length = Math.hypot(dx, dy) || 1, mx = (ax + bx) / 2 - 0.2 * dy, my = (ay + by) / 2 + 0.2 * dx;
  const back = Math.hypot(bx - mx, by - my) || 1, ux = (bx - mx) / back, uy = (by - my) / back, ex = bx - gap * ux, ey = by - gap * uy;
  pen(mdfl.map.MARKS.relay, 2.4, Math.min(1, 0.3 + length / 20));
  c.beginPath();
  c.moveTo(ax, ay), c.quadraticCurveTo(mx, my, ex, ey);
  c.moveTo(ex - 7 * ux - 4 * uy, ey - 7 * uy + 4 * ux), c.lineTo(ex, ey), c.lineTo(ex - 7 * ux + 4 * uy, ey - 7 * uy - 4 * ux);
  c.stroke();
};

// The clients: squares stay, circles move; hollow and small ones are absent.
mdfl.map.clients = (context) => {
  const { view, c, theme, frame, shown, pen, colour } = context;
  if (view.point.clients > mdfl.map.MANY) return mdfl.map.dots(context);
  const { point, X, Y, here, r, row } = view, numbered = r >= 7, labels = shown.pies ? view.labels : null;
  const outline = (i, size) => {
    c.beginPath();
    if (point.mobile.values[i]) c.arc(X(i), Y(i), size, 0, 2 * Math.PI);
    else c.rect(X(i) - 0.9 * size, Y(i) - 0.9 * size, 1.8 * size, 1.8 * size);
  };
  for (let i = 0; i < point.clients; i++) {
    if (!here(i)) continue;
    if (!mdfl.map.isPresent(point, frame, i)) {
      outline(i, 0.6 * r);
      pen(theme.soft, 1, 0.7, [2, 2]);
      c.stroke();
      continue;
    }
    const value = mdfl.map.measured(point, colour, row, i), known = !Number.isNaN(value);
    const tone = known ? mdfl.map.shade((value - colour.from) / (colour.to - colour.from || 1)) : { fill: theme.shade, ink: theme.ink };
    c.globalAlpha = 1;
    if (labels) {
      c.save();
      outline(i, r + 4.5);
      c.clip();
      mdfl.map.pie(c, labels, i, X(i), Y(i), 2 * (r + 4.5));
      c.restore();
    }
    outline(i, r);
    c.fillStyle = tone.fill;
    c.fill();
    pen(labels ? theme.paper : theme.ink, point.clients > 120 ? 0.7 : 1.2, 0.9);
    c.stroke();
    if (i === shown.focus) {
      outline(i, r + (labels ? 6 : 4));
      pen(theme.accent, 2.6);
      c.stroke();
    }
    if (numbered && shown.numbers) mdfl.map.text(c, String(i), X(i), Y(i) + 0.5, tone.ink, "center", "middle", null, Math.round(r * 1.15));
  }
};

// Many clients: dots, those of like colours in one stroke of the brush; the absent are not drawn.
mdfl.map.dots = ({ view, c, theme, frame, shown, pen, colour }) => {
  const { point, X, Y, here, r, row } = view, SHADES = 64, groups = new Map();
  for (let i = 0; i < point.clients; i++) {
    if (!here(i) || !mdfl.map.isPresent(point, frame, i)) continue;
    const value = mdfl.map.measured(point, colour, row, i);
    const shade = Number.isNaN(value) ? -1 : Math.round((SHADES * (value - colour.from)) / (colour.to - colour.from || 1));
    if (!groups.has(shade)) groups.set(shade, []);
    groups.get(shade).push(i);
  }
  c.globalAlpha = 1;
  for (const [shade, members] of [...groups].sort(([a], [b]) => a - b)) { // those without a value below the others
    c.beginPath();
    for (const i of members) c.moveTo(X(i) + r, Y(i)), c.arc(X(i), Y(i), r, 0, 2 * Math.PI);
    c.fillStyle = shade < 0 ? theme.shade : mdfl.map.shade(shade / SHADES).fill;
    c.fill();
    pen(theme.soft, 0.5, 0.7); // a dark dot is seen on a dark page
    c.stroke();
    c.globalAlpha = 1;
  }
  if (shown.focus === null || !here(shown.focus)) return;
  c.beginPath();
  c.arc(X(shown.focus), Y(shown.focus), r + 4, 0, 2 * Math.PI);
  pen(theme.accent, 2.6);
  c.stroke();
};

// The labels of a client's samples as a pie of shares; its mark covers the middle, and a ring in the form of the mark is left.
mdfl.map.pie = (c, labels, i, x, y, radius) => {
  const classes = labels.shape[1], counts = labels.values.subarray(i * classes, (i + 1) * classes);
  const total = counts.reduce((sum, count) => sum + count, 0);
  let angle = -Math.PI / 2;
  for (let k = 0; k < classes && total > 0; k++) {
    if (!counts[k]) continue;
    const next = angle + (2 * Math.PI * counts[k]) / total;
    c.beginPath();
    c.moveTo(x, y);
    c.arc(x, y, radius, angle, next);
    c.fillStyle = mdfl.map.classColour(k, classes);
    c.fill();
    angle = next;
  }
};
