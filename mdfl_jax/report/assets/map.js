"use strict";
// The playback map: its controls, its clock and the texts beside it. map_data.js decodes, map_draw.js and map_marks.js draw.
mdfl.map = mdfl.map || {};

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
  const play = button("▶ Play", "Play", () => (state.playing ? pause() : start()));
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
  const start = () => {
    if (shown.time >= rounds()) shown.time = 0;
    Object.assign(state, { playing: true, last: null });
    tell();
    requestAnimationFrame(tick);
  };
  const pause = () => {
    state.playing = false;
    tell();
  };
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
  draw();
  new ResizeObserver(() => {
    if (views.some((view) => !view.box.hidden && map.fit(view))) draw();
  }).observe(maps);
  element.map = {
    get round() { return Math.round(shown.time); },
    get time() { return shown.time; },
    get playing() { return state.playing; },
    get milliseconds() { return state.milliseconds; },
    get draws() { return state.draws; },
    get views() { return views.filter(({ box }) => !box.hidden).map((view) => ({ point: view.point, links: view.links, xy: [...view.xy], frame: view.frame })); },
    where: (side, i) => [views[side].X(i), views[side].Y(i)], // in pixels of the canvas
    goTo, draw,
  };
  return redraw;
});
