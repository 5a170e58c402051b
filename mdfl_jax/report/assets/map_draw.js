"use strict";
// The drawing of one map on a canvas. `view` is {point, context, width, height, colour}, in pixels of the style sheet;
// `shown` has the switches by name, `time`, `trail` (rounds), `smooth` and `focus`, the client that is looked at.
mdfl.map = mdfl.map || {};

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
