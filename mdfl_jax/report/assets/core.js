"use strict";
// The page's own part: it unpacks the data, draws each panel when it comes into view, and keeps the colours of the theme.
const mdfl = {
  renderers: {},
  study: null,
  drawn: [],

  // Adds a way to draw a panel: draw(element, data, study) is called once, and may return a function of no arguments that
  // is called whenever the colours change.
  register(kind, draw) {
    mdfl.renderers[kind] = draw;
  },

  // Returns a tree in which packed arrays (report/pack.py) are {shape, values}, with a typed array of values.
  async unpack(tree) {
    if (Array.isArray(tree)) return Promise.all(tree.map(mdfl.unpack));
    if (tree === null || typeof tree !== "object") return tree;
    if (!("$" in tree)) {
      const entries = Object.entries(tree).map(async ([key, value]) => [key, await mdfl.unpack(value)]);
      return Object.fromEntries(await Promise.all(entries));
    }
    const bytes = Uint8Array.from(atob(tree.data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const buffer = await new Response(stream).arrayBuffer();
    const types = { f4: Float32Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array };
    return { shape: tree.shape, values: new types[tree.$](buffer) };
  },

  // Makes an element: make("button", {type: "button", text: "Play"}, ...children).
  make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  },

  // Returns the colours of the theme by the names of the style sheet: ink, soft, rule, paper, shade, ...
  colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "soft", "rule", "paper", "shade", "static", "mobile", "accent"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  },

  // Draws traces with plotly in the colours of the page. Call it again to change what is drawn.
  plot(element, traces, layout = {}) {
    const { ink, soft, rule } = mdfl.colours();
    const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: soft, tickcolor: soft, automargin: true };
    const whole = {
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 60, r: 16, t: 28, b: 48 },
      hoverlabel: { namelength: -1 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      ...layout,
    };
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis/.test(key))]))
      whole[name] = { ...axis, ...layout[name] };
    const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
    return Plotly.react(element, traces, whole, options);
  },
};

mdfl.register("plotly", (element, { traces, layout }) => {
  const plain = (tree) => {
    if (Array.isArray(tree)) return tree.map(plain);
    if (tree === null || typeof tree !== "object") return tree;
    if (!("values" in tree && "shape" in tree)) return Object.fromEntries(Object.entries(tree).map(([k, v]) => [k, plain(v)]));
    const rows = (axis, at) => // plotly takes nested lists, and null for what is missing
      Array.from({ length: tree.shape[axis] }, (_, i) => {
        const next = at * tree.shape[axis] + i;
        if (axis + 1 < tree.shape.length) return rows(axis + 1, next);
        return Number.isFinite(tree.values[next]) ? tree.values[next] : null;
      });
    return rows(0, 0);
  };
  const given = plain(traces);
  const draw = () => mdfl.plot(element, given, plain(layout));
  draw();
  return draw;
});

mdfl.start = async () => {
  const read = async (script) => mdfl.unpack(JSON.parse(script.textContent));
  mdfl.study = await read(document.getElementById("study"));
  const draw = async (panel) => {
    const chart = panel.querySelector(".chart");
    try {
      const redraw = await mdfl.renderers[chart.dataset.kind](chart, await read(panel.querySelector("script")), mdfl.study);
      if (redraw) mdfl.drawn.push(redraw);
      panel.dataset.state = "drawn";
    } catch (error) {
      panel.dataset.state = "failed";
      chart.textContent = `This panel cannot be drawn: ${error}`;
      throw error;
    }
  };
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries)
        if (isIntersecting) {
          seen.unobserve(target);
          draw(target);
        }
    },
    { rootMargin: "600px" },
  );
  for (const panel of document.querySelectorAll(".panel[data-kind]")) seen.observe(panel);
  addEventListener("beforeprint", () => document.querySelectorAll(".panel[data-kind]:not([data-state])").forEach(draw));
  const redraw = () => mdfl.drawn.forEach((again) => again());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const button = document.getElementById("theme");
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  });
};
document.addEventListener("DOMContentLoaded", mdfl.start);
