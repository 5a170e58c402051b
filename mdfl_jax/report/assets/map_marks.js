"use strict";
// The marks on the playback map and their colours: clients, destinations, centres, meetings and relays. map_draw.js
// calls these functions, and explains `view` and `shown`.
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
  const rgb = mdfl.between(mdfl.parse(stops[k]), mdfl.parse(stops[k + 1]), at - k).map(Math.round);
  return { fill: `rgb(${rgb})`, ink: mdfl.inkOn(rgb) };
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
