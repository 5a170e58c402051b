"use strict";
// The curves that the reader explores: any recorded metric against any axis, of any points, seeds and clients. The data are
// those of report/explorer.py. What the reader has chosen is kept in the address after "#", so that a link shows it again.
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
    clients: new Set(),
  });

  class Explorer {
    constructor(element, data, study, given) {
      this.numbers = new mdfl.curves.Numbers(data);
      Object.assign(this, { data, study, name: element.closest(".panel").id, start: () => first(data, given) });
      this.most = Math.max(0, ...Object.keys(data.clients.of).map((key) => this.numbers.numClients(key)));
      this.state = this.start();
      this.restore();
      this.build(element);
      this.draw();
      addEventListener("hashchange", () => {
        if (!location.hash.includes(`${this.name}.`)) return;
        this.state = this.start();
        this.restore();
        this.update();
      });
    }

    sizes() {
      return { points: this.data.points.length, ofseeds: this.data.seeds.length, clients: this.most };
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
      return [...tools, make("div", { class: many ? "row list many" : "row list" }, ...boxes.map(({ row }) => row))];
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
      return mdfl.make("fieldset", {}, legend, ...this.list("points", this.study.points.map((point) => point.label), swatch));
    }
    folded() {
      const { make } = mdfl;
      const fold = (text, key, texts) => {
        const open = mdfl.curves.told(this.state[key], texts.length) !== mdfl.curves.told(this.start()[key], texts.length);
        return make("details", { open }, make("summary", { text }), make("fieldset", {}, make("legend", { text }), ...this.list(key, texts)));
      };
      const seeds = this.data.seeds.length > 1 ? [fold("Seeds", "ofseeds", this.data.seeds.map((seed) => `seed ${seed}`))] : [];
      const every = this.data.clients.every > 1 ? `, every ${this.data.clients.every}th evaluation` : "";
      const names = Array.from({ length: this.most }, (_, i) => `client ${i}`);
      return this.most ? [...seeds, fold(`Single clients (of the first seed${every})`, "clients", names)] : seeds;
    }

    shown() {
      return [...this.state.points].sort((a, b) => a - b);
    }
    bands() {
      return this.data.seeds.length > 1 && (this.state.band ?? this.shown().length <= mdfl.curveLines.MANY);
    }
    draw() {
      this.paint?.forEach((again) => again());
      this.told.textContent = mdfl.curveLines.summary(this);
      const { traces, layout } = mdfl.curveLines.picture(this);
      mdfl.plot(this.plot, traces, layout);
    }
  }

  mdfl.register("curves", async (element, data, study) => {
    let whole = data;
    if (data.from) {
      // Another view of the numbers that a panel of the page has already.
      const script = document.getElementById(data.from).querySelector("script");
      whole = await (mdfl.curveData ??= mdfl.unpack(JSON.parse(script.textContent)));
    }
    const explorer = new Explorer(element, whole, study, data.start_with ?? {});
    element.explorer = explorer;
    return () => explorer.draw();
  });

  addEventListener("DOMContentLoaded", () => {
    const name = [...new URLSearchParams(location.hash.slice(1)).keys()].find((key) => key.includes("."))?.split(".")[0];
    if (name) document.getElementById(name)?.scrollIntoView();
  });
})();
