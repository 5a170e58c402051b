"use strict";
// The parts around the canvases of the playback map: a view with its texts, the legend, and what is told of a client.
mdfl.map = mdfl.map || {};

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
  const lines = [`Client ${i}, ${point.mobile.values[i] ? "mobile" : "static"}${mdfl.map.isPresent(point, frame, i) ? "" : ", absent"}`];
  const value = mdfl.map.measured(point, colour, row, i);
  if (!Number.isNaN(value)) lines.push(`${colour.name} ${mdfl.map.number(value, colour)}`);
  const heard = [];
  for (const list of [links.pairs, links.oneWay])
    for (let e = 0; e < list.length; e += 2) {
      if (list[e] === i) heard.push(list[e + 1]);
      else if (list[e + 1] === i && list === links.pairs) heard.push(list[e]);
    }
  heard.sort((a, b) => a - b);
  if (mdfl.map.knowsLinks(point) && !links.over) lines.push(heard.length ? `hears ${heard.slice(0, 12).join(", ")}${heard.length > 12 ? " …" : ""}` : "hears nobody");
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
  add(shown.links && any(mdfl.map.knowsLinks), '<path d="M1 7h20"/>', "link of this round");
  add(shown.links && any(({ links }) => links && !links.mutual), '<path d="M1 7h20" stroke-dasharray="3 3"/>', "heard one way only");
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
