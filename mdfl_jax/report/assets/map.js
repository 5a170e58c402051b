"use strict";
// The data of the playback map: it reverses the coding of report/panels/map.py and answers what is where in which round.
// A time is a number of rounds since the start, with a fraction while clients are under way; a frame is an index of
// `frames`, the rounds that are on the page.
mdfl.map = {};

mdfl.map.MISSING = 65535;
mdfl.map.LEVELS = 65534;

// Decodes the arrays of one sweep point in place, and returns the point.
mdfl.map.decode = (point) => {
  const sum = (coded) => {
    const [clients, , times] = coded.shape, { values } = coded; // [n, 2, T]: a typed array wraps at 2^16
    for (let row = 0; row < clients * 2; row++)
      for (let t = row * times + 1, end = (row + 1) * times; t < end; t++) values[t] += values[t - 1];
  };
  for (const name of ["position", "destination", "centre"]) if (point[name]) sum(point[name]);
  const [clients, , times] = point.position.shape;
  Object.assign(point, { clients, times, rounds: point.frames.values[times - 1], cache: new Map() });
  for (const coded of [point.links, point.rejected])
    if (coded && coded.changes) {
      const [rows, width] = coded.bits.shape, { values } = coded.bits;
      for (let b = width; b < rows * width; b++) values[b] ^= values[b - width];
    }
  point.mobiles = [];
  for (let i = 0; i < clients; i++) if (point.mobile.values[i]) point.mobiles.push(i);
  return point;
};

// Returns a coordinate of an array [n, 2, T] in the units of the world; NaN where there is none.
mdfl.map.coordinate = (point, array, i, axis, frame) => {
  const times = array.shape[2], whole = array.values[(2 * i + axis) * times + frame];
  if (whole === mdfl.map.MISSING || frame >= times) return NaN;
  const { low, high, kind } = point.world;
  const value = low[axis] + (whole / mdfl.map.LEVELS) * (high[axis] - low[axis]);
  return kind === "grid" && array === point.position ? Math.round(value) : value;
};

// Returns the last frame that is not after a time, and how far the way to the next one is gone, in [0, 1).
mdfl.map.frameAt = (point, time) => {
  const frames = point.frames.values;
  let frame = Math.min(point.times - 1, Math.floor(time / point.stride + 1e-9));
  while (frame + 1 < point.times && frames[frame + 1] <= time + 1e-9) frame++;
  if (frame + 1 >= point.times) return [point.times - 1, 0];
  return [frame, Math.max(0, (time - frames[frame]) / (frames[frame + 1] - frames[frame]))];
};

// Returns the frame whose links, meetings and accuracies a time has: the nearest one.
mdfl.map.nearest = (point, time) => {
  const [frame, share] = mdfl.map.frameAt(point, time);
  return share < 0.5 ? frame : frame + 1;
};

// Tells whether a client leaves one side of a world without walls and enters at the other between two frames.
mdfl.map.jumps = (point, ax, ay, bx, by) => {
  const { wraps, low, high } = point.world;
  return wraps && (Math.abs(bx - ax) > (high[0] - low[0]) / 2 || Math.abs(by - ay) > (high[1] - low[1]) / 2);
};

// Returns the places of all clients at a time, [x, y, x, y, ...]. On the way they are on the straight line, if smooth.
mdfl.map.places = (point, time, smooth, into) => {
  const { coordinate, frameAt, jumps } = mdfl.map, [frame, share] = frameAt(point, time), array = point.position;
  const near = share < 0.5 ? frame : frame + 1, found = into || new Float64Array(2 * point.clients);
  for (let i = 0; i < point.clients; i++) {
    let x = coordinate(point, array, i, 0, frame), y = coordinate(point, array, i, 1, frame);
    if (share > 0) {
      const nx = coordinate(point, array, i, 0, frame + 1), ny = coordinate(point, array, i, 1, frame + 1);
      if (!smooth || Number.isNaN(x + nx) || jumps(point, x, y, nx, ny)) [x, y] = near === frame ? [x, y] : [nx, ny];
      else [x, y] = [x + share * (nx - x), y + share * (ny - y)];
    }
    found[2 * i] = x;
    found[2 * i + 1] = y;
  }
  return found;
};

// Returns a bit of an array [T, ceil(N / 8)] of packed bits; false after its last row.
mdfl.map.bit = (array, frame, i) => {
  if (!array || frame >= array.shape[0]) return false;
  return (array.values[frame * array.shape[1] + (i >> 3)] & (128 >> (i & 7))) !== 0;
};

// Tells whether a client is there; after the last round, those are there that were in it.
mdfl.map.isPresent = (point, frame, i) => !point.present || mdfl.map.bit(point.present, Math.min(frame, point.present.shape[0] - 1), i);

// Returns the links of the round that begins at a frame: {pairs: [i, j, ...], oneWay: [receiver, sender, ...], degree},
// and those over which models came that receivers rejected: {rejected: [receiver, sender, ...]}.
mdfl.map.linksAt = (point, frame) => {
  if (point.cache.has(frame)) return point.cache.get(frame);
  const found = { pairs: [], oneWay: [], degree: new Uint16Array(point.clients), components: 0, over: false, rejected: [] };
  found.over = point.frames.values[frame] >= (point.stopped ?? point.rounds);
  if (!found.over) point.links ? mdfl.map.recorded(point.links, point.clients, frame, found) : mdfl.map.computed(point, frame, found);
  if (!found.over && point.rejected) {
    const both = { pairs: [], oneWay: found.rejected };
    mdfl.map.recorded(point.rejected, point.clients, frame, both);
    for (let e = 0; e < both.pairs.length; e += 2) found.rejected.push(both.pairs[e], both.pairs[e + 1], both.pairs[e + 1], both.pairs[e]);
  }
  for (let e = 0; e < found.pairs.length; e++) found.degree[found.pairs[e]]++;
  for (let e = 0; e < found.oneWay.length; e += 2) found.degree[found.oneWay[e]]++;
  found.count = found.pairs.length / 2 + found.oneWay.length / 2;
  found.components = mdfl.map.components(point, frame, found);
  if (point.cache.size > 400) point.cache.clear();
  point.cache.set(frame, found);
  return found;
};

// Adds the coded links of a frame, among n clients, to lists of pairs.
mdfl.map.recorded = ({ mutual, bits }, n, frame, { pairs, oneWay }) => {
  const width = bits.shape[1], row = frame * width;
  if (frame >= bits.shape[0]) return;
  const hears = (i, j) => (bits.values[row + ((i * n + j) >> 3)] & (128 >> ((i * n + j) & 7))) !== 0;
  let i = 0, first = 0; // of row i, and the number of its first pair
  for (let b = 0; b < width; b++) {
    const byte = bits.values[row + b];
    if (byte === 0) continue;
    for (let k = 0; k < 8; k++) {
      if (!(byte & (128 >> k))) continue;
      const pair = 8 * b + k;
      if (!mutual) {
        const to = Math.floor(pair / n), from = pair % n;
        if (!hears(from, to)) oneWay.push(to, from);
        else if (to < from) pairs.push(to, from);
        continue;
      }
      while (pair >= first + n - 1 - i) first += n - 1 - i++;
      pairs.push(i, i + 1 + pair - first);
    }
  }
};

// Computes the links from places and radius, for studies that have not recorded them.
mdfl.map.computed = (point, frame, { pairs }) => {
  const { radius, swept, kind } = point.world, now = mdfl.map.places(point, point.frames.values[frame]);
  if (!mdfl.map.knowsLinks(point) || (swept && frame === 0)) return;
  const before = swept ? mdfl.map.places(point, point.frames.values[frame - 1]) : now;
  const least = (radius * (1 + 1e-6) + (kind === "grid" ? 0 : 1e-4)) ** 2; // the places are rounded
  const here = (i) => mdfl.map.isPresent(point, frame, i);
  const meet = (i, j) => {
    const x = before[2 * i] - before[2 * j], y = before[2 * i + 1] - before[2 * j + 1];
    const dx = now[2 * i] - now[2 * j] - x, dy = now[2 * i + 1] - now[2 * j + 1] - y, speed = dx * dx + dy * dy;
    const at = speed > 0 ? Math.min(1, Math.max(0, -(x * dx + y * dy) / speed)) : 0; // where they are nearest
    if ((x + at * dx) ** 2 + (y + at * dy) ** 2 <= least) pairs.push(Math.min(i, j), Math.max(i, j));
  };
  let way = 0; // the longest of this movement
  for (let i = 0; i < point.clients; i++) if (here(i)) way = Math.max(way, Math.hypot(now[2 * i] - before[2 * i], now[2 * i + 1] - before[2 * i + 1]) || 0);
  mdfl.map.nearby(before, Array.from({ length: point.clients }, (_, i) => i).filter(here), Math.sqrt(least) + 2 * way, meet);
};

// Calls `meet` for all pairs of clients that may be within a reach of each other; of many clients, those of square cells
// as wide as the reach that touch each other.
mdfl.map.nearby = (xy, clients, reach, meet) => {
  if (clients.length <= 300) {
    for (let a = 0; a < clients.length; a++) for (let b = a + 1; b < clients.length; b++) meet(clients[a], clients[b]);
    return;
  }
  const cells = new Map(), cell = (i, axis) => Math.floor(xy[2 * i + axis] / reach), key = (x, y) => `${x},${y}`;
  for (const i of clients) {
    const found = cells.get(key(cell(i, 0), cell(i, 1)));
    if (found) found.push(i);
    else cells.set(key(cell(i, 0), cell(i, 1)), [i]);
  }
  for (const members of cells.values()) {
    const x = cell(members[0], 0), y = cell(members[0], 1);
    for (let a = 0; a < members.length; a++) for (let b = a + 1; b < members.length; b++) meet(members[a], members[b]);
    for (const [dx, dy] of [[1, -1], [1, 0], [1, 1], [0, 1]]) // each two cells once
      for (const i of members) for (const j of cells.get(key(x + dx, y + dy)) || []) meet(i, j);
  }
};

// Whether the page knows the links of a sweep point at all. Contacts on the way need the places of every round.
mdfl.map.knowsLinks = ({ links, stride, world }) =>
  Boolean(links) || (world.kind !== "circle" && world.radius !== null && !(world.swept && stride > 1));

// Returns the number of groups of present clients that links of either direction connect.
mdfl.map.components = (point, frame, { pairs, oneWay }) => {
  const parent = Int32Array.from({ length: point.clients }, (_, i) => i);
  const root = (i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  let groups = 0;
  for (let i = 0; i < point.clients; i++) groups += mdfl.map.isPresent(point, frame, i) ? 1 : 0;
  for (const list of [pairs, oneWay])
    for (let e = 0; e < list.length; e += 2) {
      const a = root(list[e]), b = root(list[e + 1]);
      if (a !== b) [parent[a], groups] = [b, groups - 1];
    }
  return groups;
};

// Returns the row of the last evaluation that is not after a time.
mdfl.map.evaluation = (point, time) => {
  const rounds = point.evaluated ? point.evaluated.values : [];
  let row = 0;
  while (row + 1 < rounds.length && rounds[row + 1] <= time + 1e-9) row++;
  return row;
};

// Returns the coloured metric of a client at an evaluation; NaN where it has none.
mdfl.map.measured = (point, colour, row, i) => {
  if (!colour || !point.values) return NaN;
  const whole = point.values.values[row * point.clients + i];
  return whole === mdfl.map.MISSING ? NaN : colour.low + (whole / mdfl.map.LEVELS) * (colour.high - colour.low);
};

// Returns the smallest and the largest value of the clients at the last evaluation before a time.
mdfl.map.range = (point, colour, time) => {
  const row = mdfl.map.evaluation(point, time);
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < point.clients; i++) {
    const value = mdfl.map.measured(point, colour, row, i);
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
};

// The drawing of one map on a canvas. `view` is {point, context, width, height, colour}, in pixels of the style sheet;
// `shown` has the switches by name, `time`, `trail` (rounds), `smooth` and `focus`, the client that is looked at.

// Returns the function from places of the world to pixels; y points upwards in the world.
mdfl.map.onto = ({ point, width, height }, marker) => {
  const { low, high } = point.world, margin = marker + 12;
  const inner = (size) => Math.max(size - 2 * margin, 0); // a frame that is not laid out yet has no room
  const scale = Math.min(inner(width) / (high[0] - low[0]), inner(height) / (high[1] - low[1]));
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
  mdfl.map.attackers(context);
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
mdfl.map.links = (context) => {
  const { view, c, theme, shown, pen } = context;
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
  mdfl.map.bars(context);
};

// The rejected models: a bar across the link, before the client that rejects.
mdfl.map.bars = ({ view, c, theme, pen }) => {
  const { links: { rejected }, X, Y, here, r, xy } = view;
  c.beginPath();
  for (let e = 0; e < rejected.length; e += 2) {
    const a = rejected[e], b = rejected[e + 1], dx = X(b) - X(a), dy = Y(b) - Y(a), length = Math.hypot(dx, dy);
    if (!here(a) || !here(b) || !length || mdfl.map.jumps(view.point, xy[2 * a], xy[2 * a + 1], xy[2 * b], xy[2 * b + 1])) continue;
    const away = Math.min(r + 5, length / 3) / length, half = Math.max(2.5, 0.6 * r) / length, x = X(a) + away * dx, y = Y(a) + away * dy;
    c.moveTo(x - half * dy, y + half * dx), c.lineTo(x + half * dy, y - half * dx);
  }
  pen(theme.ink, 2.4);
  c.stroke();
};

// The marks on the playback map and their colours: clients, destinations, centres, meetings and relays. `view` and
// `shown` are those of the drawing.

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

// The attackers: a diamond around each, which is seen in black and white, too.
mdfl.map.attackers = ({ view, c, theme, pen }) => {
  const { point, X, Y, here, r } = view, size = 1.55 * r + 3;
  c.beginPath();
  for (let i = 0; i < point.clients; i++) {
    if (!point.attackers || !point.attackers.values[i] || !here(i)) continue;
    c.moveTo(X(i), Y(i) - size);
    for (const [dx, dy] of [[size, 0], [0, size], [-size, 0], [0, -size]]) c.lineTo(X(i) + dx, Y(i) + dy);
  }
  pen(theme.ink, 2.2);
  c.stroke();
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

// The parts around the canvases of the playback map: a view with its texts, the legend, and what is told of a client.

// Makes one of the two maps: a canvas, its title, the line below it and the box that tells of a client.
mdfl.map.makeView = (side, make) => {
  const title = make("h3", {}), about = make("div", { class: "map-client", hidden: true });
  const line = make("p", { class: "map-line", role: "status" });
  const canvas = make("canvas", { tabindex: 0, role: "img" });
  const box = make("div", { class: "map-view", "data-side": side }, title, make("div", { class: "map-canvas" }, canvas, about), line);
  return { box, title, canvas, about, line, context: canvas.getContext("2d"), ratio: 1, width: 0, height: 0 };
};

// Gives the canvas the size of its place on the page; returns whether it has changed.
mdfl.map.fit = (view) => {
  const { low, high } = view.point.world, width = Math.floor(view.box.clientWidth), ratio = Math.min(3, devicePixelRatio || 1);
  if (!width) return false;
  const limit = Math.max(260, Math.min(620, 0.75 * innerHeight)), aspect = (high[1] - low[1]) / (high[0] - low[0]);
  const height = Math.round(Math.max(220, Math.min(limit, 36 + aspect * (width - 36))));
  if (view.width === width && view.height === height && view.ratio === ratio) return false;
  Object.assign(view, { width, height, ratio });
  view.canvas.width = width * ratio;
  view.canvas.height = height * ratio;
  view.canvas.style.height = `${height}px`;
  return true;
};

// The longest trail with which the paths of all mobile clients together stay readable.
mdfl.map.usualTrail = (points) => {
  let most = 0;
  for (const point of points) {
    const { low, high } = point.world, size = Math.hypot(high[0] - low[0], high[1] - low[1]), last = Math.min(50, point.times - 1);
    let way = 0;
    for (const i of point.mobiles)
      for (let f = 1; f <= last; f++) {
        const [dx, dy] = [0, 1].map((axis) => mdfl.map.coordinate(point, point.position, i, axis, f) - mdfl.map.coordinate(point, point.position, i, axis, f - 1));
        way += Math.hypot(dx, dy) || 0;
      }
    if (last > 0) most = Math.max(most, way / size / point.frames.values[last]);
  }
  return mdfl.map.TRAILS.filter((k) => k * most <= 4).pop() || mdfl.map.TRAILS[0];
};

mdfl.map.clientAt = (view, x, y) => {
  if (!view.X) return null;
  let best = null, least = Math.max(view.r + 5, 13) ** 2;
  for (let i = 0; i < view.point.clients; i++) {
    const away = view.here(i) ? (view.X(i) - x) ** 2 + (view.Y(i) - y) ** 2 : Infinity;
    if (away < least) [best, least] = [i, away];
  }
  return best;
};

mdfl.map.number = (value, colour) => (Number.isNaN(value) ? "unknown" : colour.percent ? `${(100 * value).toFixed(1)} %` : value.toPrecision(3));

// The line below a map: the round, the links and the mean of the coloured metric.
mdfl.map.lineOf = ({ point, frame, links, row }, shown, colour) => {
  const parts = [`Round ${point.frames.values[frame]} of ${point.rounds}`], many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  let there = 0, met = 0, sum = 0, known = 0;
  for (let i = 0; i < point.clients; i++) {
    there += mdfl.map.isPresent(point, frame, i) ? 1 : 0;
    met += mdfl.map.bit(point.met_server, frame, i) ? 1 : 0;
    const value = mdfl.map.measured(point, colour, row, i);
    if (!Number.isNaN(value)) [sum, known] = [sum + value, known + 1];
  }
  if (links.over) parts.push(point.stopped === null ? "the end" : `stopped at round ${point.stopped}`);
  else if (mdfl.map.knowsLinks(point)) parts.push(many(links.count, "link"), `${many(links.components, "component")}`);
  if (point.rejected && !links.over) parts.push(`${many(links.rejected.length / 2, "model")} rejected`);
  if (there < point.clients) parts.push(`${there} of ${point.clients} clients present`);
  if (point.met_server && !links.over) parts.push(`${met} meet${met === 1 ? "s" : ""} the server`);
  const judged = !colour && point.judged ? point.judged.values[row] : NaN;
  if (!Number.isNaN(judged)) parts.push(`accuracy of the global model ${(100 * judged).toFixed(1)} % (round ${point.evaluated.values[row]})`);
  if (known) parts.push(`mean ${colour.name} ${mdfl.map.number(sum / known, colour)} (round ${point.evaluated.values[row]})`);
  if (shown.time === 0 && point.mobiles.length && shown.trails && point.rounds) parts.push(`dotted: the first ${Math.min(shown.trail, point.rounds)} rounds of movement`);
  return parts.join(" · ");
};

// The box that tells of one client, beside its mark.
mdfl.map.showClient = (view, i, colour, shown) => {
  const { about, point, frame, links, row } = view, absent = i === null || i >= point.clients || !view.here(i);
  about.hidden = absent;
  if (absent) return;
  const lines = [`Client ${i}, ${point.mobile.values[i] ? "mobile" : "static"}${point.attackers && point.attackers.values[i] ? ", attacks" : ""}${mdfl.map.isPresent(point, frame, i) ? "" : ", absent"}`];
  const value = mdfl.map.measured(point, colour, row, i);
  if (!Number.isNaN(value)) lines.push(`${colour.name} ${mdfl.map.number(value, colour)}`);
  const heard = [];
  for (const list of [links.pairs, links.oneWay])
    for (let e = 0; e < list.length; e += 2) {
      if (list[e] === i) heard.push(list[e + 1]);
      else if (list[e + 1] === i && list === links.pairs) heard.push(list[e]);
    }
  heard.sort((a, b) => a - b);
  if (mdfl.map.knowsLinks(point) && !links.over) lines.push(heard.length ? `receives from ${heard.slice(0, 12).join(", ")}${heard.length > 12 ? " …" : ""}` : "hears nobody");
  const rejects = links.rejected.filter((_, e) => e % 2 && links.rejected[e - 1] === i).sort((a, b) => a - b);
  if (rejects.length) lines.push(`rejects ${rejects.slice(0, 12).join(", ")}${rejects.length > 12 ? " …" : ""}`);
  if (mdfl.map.bit(point.met_server, frame, i)) lines.push("meets the server");
  for (const [name, list] of view.relays) {
    const carrier = frame < list.shape[0] ? list.values[frame * point.clients + i] : -1;
    if (carrier >= 0) lines.push(`${name.replace("relay_", "")} by client ${carrier}`);
  }
  if (view.labels) {
    const classes = view.labels.shape[1], counts = [...view.labels.values.subarray(i * classes, (i + 1) * classes)];
    const held = counts.map((count, k) => [k, count]).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const told = held.slice(0, 5).map(([k, count]) => `${k} (${count})`).join(", ") + (held.length > 5 ? " …" : "");
    lines.push(`${total} samples${classes > 1 && total ? ` of class ${told}` : ""}`);
  }
  about.replaceChildren(...lines.map((text) => mdfl.make("div", { text })));
  const x = view.X(i), y = view.Y(i), width = about.offsetWidth, height = about.offsetHeight, gap = view.r + 10;
  about.style.left = `${Math.max(0, Math.min(view.width - width, x + gap + width > view.width ? x - gap - width : x + gap))}px`;
  about.style.top = `${Math.max(0, Math.min(view.height - height, y - height / 2))}px`;
};

// The legend of what is drawn: symbols in the colours of the page, the scale of the colours, and the classes.
mdfl.map.legend = (element, { points, shown, colour, data, make, relays }) => {
  const any = (test) => points.some(test), { server, relay, centre } = mdfl.map.MARKS, entries = [];
  const add = (applies, shape, text) => {
    if (!applies) return;
    const symbol = make("span", { class: "map-symbol", "aria-hidden": "true" });
    symbol.innerHTML = `<svg viewBox="0 0 22 14" width="22" height="14" fill="none" stroke="currentColor" stroke-width="1.6">${shape}</svg>`;
    entries.push(make("span", { class: "map-entry" }, symbol, text));
  };
  const stays = (point) => point.mobiles.length < point.clients;
  add(any(stays), '<rect x="6" y="2" width="10" height="10"/>', any(({ mobiles }) => mobiles.length) ? "client that stays" : "client");
  add(any(({ mobiles }) => mobiles.length), '<circle cx="11" cy="7" r="5.5"/>', "client that moves");
  add(any(({ present, clients }) => present && clients <= mdfl.map.MANY), '<circle cx="11" cy="7" r="3.5" stroke-dasharray="2 2"/>', "absent");
  add(shown.links && any(mdfl.map.knowsLinks), '<path d="M1 7h20"/>', any(({ links }) => links) ? "received in this round" : "link of this round");
  add(shown.links && any(({ links }) => links && !links.mutual), '<path d="M1 7h20" stroke-dasharray="3 3"/>', "received one way only");
  add(any(({ attackers }) => attackers), '<path d="M11 0l7 7-7 7-7-7z" stroke-width="2.2"/>', "attacker");
  add(shown.links && any(({ rejected }) => rejected), '<path d="M1 7h20"/><path d="M6 2v10" stroke-width="2.4"/>', "model rejected, at the bar");
  add(shown.ranges && any(({ world }) => world.kind !== "circle" && world.radius !== null), '<circle cx="11" cy="7" r="6" fill="var(--accent)" fill-opacity=".15" stroke="var(--soft)" stroke-width=".8"/>', "radio range");
  add(shown.trails && any(({ mobiles }) => mobiles.length), '<path d="M1 11l7-7 5 5 8-7"/>', "path of the last rounds");
  add(shown.goals && any(({ destination }) => destination), '<path d="M7 3l8 8M7 11l8-8"/>', "destination");
  add(shown.goals && any((point) => point.centre), `<path d="M11 1v12M5 7h12" stroke="${centre}" stroke-width="3"/>`, "centre of a cluster");
  add(any(({ world }) => world.units.length), `<path d="M11 1l6 11H5z" fill="${server}" stroke="none"/>`, "road-side unit");
  add(shown.meetings && any((point) => point.met_server), `<circle cx="6" cy="7" r="4.5" stroke="${server}"/><path d="M11 7h10" stroke="${server}"/>`, "meets the server");
  add(shown.meetings && any((point) => relays(point).length), `<path d="M2 11q9-12 18 0M20 11l-1-5M20 11l-5-1" stroke="${relay}" stroke-width="2"/>`, "relays for another");
  add(shown.streets && any(({ world }) => world.streets.shape[0]), '<path d="M1 7h20" stroke="var(--rule)" stroke-width="4"/>', "street");
  if (colour) {
    const bar = make("span", { class: "map-scale", "aria-hidden": "true", style: `background: linear-gradient(to right, ${mdfl.map.VIRIDIS.join(",")})` });
    const end = (value) => make("span", { text: mdfl.map.number(value, colour) });
    entries.unshift(make("span", { class: "map-entry" }, `${colour.title}: `, end(colour.from), bar, end(colour.to)));
  }
  const classes = shown.pies && points[0].labels !== null ? data.labels[points[0].labels].shape[1] : 0;
  for (let k = 0; k < Math.min(classes, 30); k++)
    add(true, `<circle cx="11" cy="7" r="5" fill="${mdfl.map.classColour(k, classes)}" stroke="none"/>`, `class ${k}`);
  element.replaceChildren(...entries);
};

// The playback map: its controls, its clock and the texts beside it.

mdfl.map.SPEEDS = [1, 2, 5, 10, 20, 50, 100]; // rounds a second
mdfl.map.TRAILS = [5, 10, 20, 50, 100];

mdfl.register("map", (element, data, study) => {
  const { make, map } = mdfl, points = data.points.map(map.decode), colour = data.colour;
  const name = (k) => (k === null ? "none" : study.points[points[k].point].label);
  const shown = { time: 0, smooth: true, focus: null, trail: 0, ranges: true, links: true, trails: true, numbers: true };
  Object.assign(shown, { streets: true, goals: true, meetings: true, pies: false });
  if (points.some((point) => point.clients > map.MANY)) Object.assign(shown, { ranges: false, trails: false }); // they would cover the map
  const state = { playing: false, picked: null, hovered: null, last: null, speed: 5, draws: 0, scale: "study" };
  const views = [0, 1].map((side) => map.makeView(side, make));
  const chosen = [data.start[0], data.start.length > 1 ? data.start[1] : null];
  const some = (test) => points.some(test), relays = (point) => Object.entries(point).filter(([key]) => key.startsWith("relay_"));
  const rounds = () => Math.max(...chosen.filter((k) => k !== null).map((k) => points[k].rounds));

  // ---- the controls
  const button = (label, title, onclick) => make("button", { type: "button", title, "aria-label": title, text: label, onclick });
  const play = button("▶ Play", "Play", () => (state.playing ? pause() : start(true)));
  const range = make("input", { type: "range", min: 0, max: rounds(), step: "any", value: 0, "aria-label": "Round", oninput: () => { pause(); goTo(Math.round(+range.value)); } });
  const box = (label, key) => {
    const input = make("input", { type: "checkbox", "data-switch": key, onchange: () => { shown[key] = input.checked; legend(); draw(); } });
    input.checked = shown[key];
    return make("label", {}, input, label);
  };
  const speed = map.SPEEDS.filter((s) => s <= Math.max(2, rounds() / 45)).pop();
  state.speed = speed;
  shown.trail = map.usualTrail(points);
  const choices = points.map((_, k) => [k, name(k)]), clients = Math.max(...points.map((point) => point.clients));
  const pick = mdfl.choice("Client", [["", "none"], ...Array.from({ length: clients }, (_, i) => [i, String(i)])], "", (value) => focus(value === "" ? null : +value));
  const step = (way) => {
    pause();
    const { frames, times } = points[chosen[0]], [frame] = map.frameAt(points[chosen[0]], shown.time);
    goTo(frames.values[Math.min(times - 1, Math.max(0, frame + way))]);
  };
  const switches = [
    ["Links", "links", some(map.knowsLinks)],
    ["Ranges", "ranges", some(({ world }) => world.kind !== "circle" && world.radius !== null)],
    ["Paths", "trails", some(({ mobiles }) => mobiles.length)],
    ["Destinations", "goals", some((point) => point.destination || point.centre)],
    ["Meetings", "meetings", some((point) => point.met_server || relays(point).length)],
    ["Streets", "streets", some(({ world }) => world.streets.shape[0])],
    ["Labels as rings", "pies", data.labels.some((of) => of.shape[1] > 1)],
    ["Numbers", "numbers", some((point) => point.clients <= 50)],
    ["Glide between rounds", "smooth", some(({ mobiles }) => mobiles.length)],
  ].filter(([, , applies]) => applies);
  const controls = make("div", { class: "map-controls tools" },
    make("div", { class: "row map-clock" }, button("|◀", "To the first round", () => { pause(); goTo(0); }), button("◀", "One round back", () => step(-1)), play, button("▶|", "One round on", () => step(1)), range),
    make("div", { class: "row" },
      mdfl.choice("Speed", map.SPEEDS.map((s) => [s, `${s} round${s > 1 ? "s" : ""}/s`]), speed, (value) => { state.speed = +value; }),
      ...(points.length > 1 ? [mdfl.choice("Left", choices, chosen[0], (k) => choose(0, +k)), mdfl.choice("Right", [["", "none"], ...choices], chosen[1] === null ? "" : chosen[1], (k) => choose(1, k === "" ? null : +k))] : []),
      ...(some(({ mobiles }) => mobiles.length) ? [mdfl.choice("Paths of", map.TRAILS.map((k) => [k, `${k} rounds`]), shown.trail, (k) => { shown.trail = +k; draw(); })] : []),
      ...(colour ? [mdfl.choice("Colours", [["study", "one scale for all rounds"], ["round", "scale of this round"]], "study", (value) => { state.scale = value; draw(); })] : []),
      pick),
    make("div", { class: "row", role: "group", "aria-label": "Shown on the map" }, ...switches.map(([label, key]) => box(label, key))));
  const key = make("div", { class: "map-legend" }), maps = make("div", { class: "map-views" }, ...views.map(({ box }) => box));
  element.append(make("div", { class: "map" }, controls, maps, key, ...(data.note ? [make("p", { class: "map-line", text: data.note })] : [])));

  // ---- the clock
  const goTo = (time) => {
    shown.time = Math.min(rounds(), Math.max(0, time));
    draw();
  };
  const tell = () => {
    play.textContent = state.playing ? "❚❚ Pause" : "▶ Play";
    play.title = state.playing ? "Pause" : "Play";
    play.setAttribute("aria-label", play.title);
    for (const { line } of views) line.setAttribute("aria-live", state.playing ? "off" : "polite");
  };
  const start = (byReader) => {
    if (shown.time >= Math.max(rounds() - 1, 0)) shown.time = 0;
    Object.assign(state, { playing: true, last: null, byReader });
    seen.disconnect();
    tell();
    requestAnimationFrame(tick);
  };
  const pause = () => {
    state.playing = false;
    seen.disconnect();
    tell();
  };
  // It starts as soon as half of it is in view, unless the reader wants no motion or has done something with it before.
  const seen = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && start(false), { threshold: 0.5 });
  const tick = (now) => {
    if (!state.playing) return;
    const passed = state.last === null ? 0 : Math.min(0.25, (now - state.last) / 1000);
    state.last = now;
    goTo(shown.time + passed * state.speed);
    if (shown.time >= rounds()) pause();
    else requestAnimationFrame(tick);
  };

  // ---- what is drawn
  const choose = (side, k) => {
    chosen[side] = k;
    range.max = rounds();
    layout();
    legend();
    goTo(shown.time);
  };
  const focus = (i) => {
    state.picked = i;
    pick.querySelector("select").value = i === null ? "" : String(i);
    draw();
  };
  const layout = () => {
    maps.classList.toggle("one", chosen[1] === null);
    views.forEach((view, side) => {
      view.box.hidden = chosen[side] === null;
      if (chosen[side] === null) return;
      const point = points[chosen[side]];
      Object.assign(view, { point, xy: null, tone: study.points[point.point].colour, labels: point.labels === null ? null : data.labels[point.labels], relays: relays(point) });
      view.title.textContent = points.length > 1 ? name(chosen[side]) : "";
      view.canvas.setAttribute("aria-label", `Map of the clients${points.length > 1 ? `, ${name(chosen[side])}` : ""}. Space plays and pauses; the arrow keys go one round on or back.`);
      map.fit(view);
    });
  };
  const draw = () => {
    const began = performance.now();
    shown.focus = state.hovered === null ? state.picked : state.hovered;
    rescale();
    for (const view of views.filter(({ box }) => !box.hidden)) {
      view.colour = mdfl.visible(view.tone);
      map.draw(view, { ...shown, focus: shown.focus !== null && shown.focus < view.point.clients ? shown.focus : null }, colour);
      const text = map.lineOf(view, shown, colour);
      if (view.line.textContent !== text) view.line.textContent = text;
      map.showClient(view, shown.focus, colour, shown);
    }
    range.value = shown.time;
    range.setAttribute("aria-valuetext", `round ${Math.round(shown.time)} of ${rounds()}`);
    state.milliseconds = performance.now() - began;
    state.draws++;
  };
  const rescale = () => { // the ends of the scale of the colours
    if (!colour) return;
    const before = `${colour.from},${colour.to}`, now = views.filter(({ box }) => !box.hidden).map((view) => map.range(view.point, colour, shown.time));
    const ends = now.filter(([low]) => Number.isFinite(low));
    const whole = state.scale === "study" || !ends.length;
    colour.from = whole ? colour.low : Math.min(...ends.map(([low]) => low));
    colour.to = whole ? colour.high : Math.max(...ends.map(([, high]) => high));
    if (before !== `${colour.from},${colour.to}`) legend();
  };
  const legend = () => map.legend(key, { points: chosen.filter((k) => k !== null).map((k) => points[k]), shown, colour, data, make, relays });
  const redraw = () => {
    for (const view of views.filter(({ box }) => !box.hidden)) map.fit(view);
    legend();
    draw();
  };

  // ---- pointer, keys and size
  for (const view of views) {
    view.canvas.addEventListener("pointermove", (event) => {
      const found = map.clientAt(view, event.offsetX, event.offsetY);
      if (found !== state.hovered && event.pointerType === "mouse") [state.hovered] = [found], draw();
    });
    view.canvas.addEventListener("pointerleave", () => { if (state.hovered !== null) state.hovered = null, draw(); });
    view.canvas.addEventListener("click", (event) => {
      const found = map.clientAt(view, event.offsetX, event.offsetY);
      focus(found === state.picked ? null : found);
    });
  }
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input[type=checkbox]")) return;
    if (event.key === " " && event.target.tagName === "BUTTON") return; // the browser presses the button
    const keys = { " ": () => play.click(), ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => goTo(0), End: () => goTo(rounds()), Escape: () => focus(null) };
    if (!(event.key in keys)) return;
    event.preventDefault();
    if (event.key === "Home" || event.key === "End") pause();
    keys[event.key]();
  });
  layout();
  legend();
  tell();
  goTo(Math.max(rounds() - 1, 0)); // until it plays, the last round with links, where the colours differ
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) seen.observe(maps);
  addEventListener("beforeprint", () => state.playing && pause());
  new ResizeObserver(() => {
    if (views.some((view) => !view.box.hidden && map.fit(view))) draw();
  }).observe(maps);
  element.map = {
    get round() { return Math.round(shown.time); },
    get time() { return shown.time; },
    get playing() { return state.playing; },
    get started() { return state.playing && state.byReader; },
    get milliseconds() { return state.milliseconds; },
    get draws() { return state.draws; },
    get views() { return views.filter(({ box }) => !box.hidden).map((view) => ({ point: view.point, links: view.links, xy: [...view.xy], frame: view.frame })); },
    where: (side, i) => [views[side].X(i), views[side].Y(i)], // in pixels of the canvas
    goTo, draw,
  };
  return redraw;
});
