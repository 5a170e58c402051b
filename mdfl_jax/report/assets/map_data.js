"use strict";
// The data of the playback map: it reverses the coding of report/playback.py and answers what is where in which round.
// A time is a number of rounds since the start, with a fraction while clients are under way; a frame is an index of
// `frames`, the rounds that are on the page.
mdfl.map = mdfl.map || {};

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
  const { links } = point;
  if (links && links.changes) {
    const [rows, width] = links.bits.shape, { values } = links.bits;
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

// Returns the links of the round that begins at a frame: {pairs: [i, j, ...], oneWay: [receiver, sender, ...], degree}.
mdfl.map.linksAt = (point, frame) => {
  if (point.cache.has(frame)) return point.cache.get(frame);
  const found = { pairs: [], oneWay: [], degree: new Uint16Array(point.clients), components: 0, over: false };
  found.over = point.frames.values[frame] >= (point.stopped ?? point.rounds);
  if (!found.over) (point.links ? mdfl.map.recorded : mdfl.map.computed)(point, frame, found);
  for (let e = 0; e < found.pairs.length; e++) found.degree[found.pairs[e]]++;
  for (let e = 0; e < found.oneWay.length; e += 2) found.degree[found.oneWay[e]]++;
  found.count = found.pairs.length / 2 + found.oneWay.length / 2;
  found.components = mdfl.map.components(point, frame, found);
  if (point.cache.size > 400) point.cache.clear();
  point.cache.set(frame, found);
  return found;
};

mdfl.map.recorded = (point, frame, { pairs, oneWay }) => {
  const { mutual, bits } = point.links, n = point.clients, width = bits.shape[1], row = frame * width;
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
