"use strict";
// The page's own part: it unpacks the data, draws the panels and keeps the colours of the theme.
const mdfl = {
  renderers: {},
  drawn: [],

  // Adds a way to draw a panel: draw(element, data, study) is called once, and may return a function of no arguments that
  // is called whenever the colours change.
  register(kind, draw) {
    mdfl.renderers[kind] = draw;
  },

  // Returns a tree in which packed arrays (report/registry.py) are {shape, values}, with a typed array of values.
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

  // Makes a labelled choice between options, each [value, text]; onchoice gets the chosen value as a text.
  choice(label, options, chosen, onchoice, name = null) {
    const made = options.map(([value, text]) => mdfl.make("option", { value, text }));
    const select = mdfl.make("select", { name, onchange: () => onchoice(select.value) }, ...made);
    select.value = String(chosen);
    return mdfl.make("label", {}, label, select);
  },

  // Makes a chart with its controls: choices are {name: {label, texts, start}}, of which a single text is no choice. It calls
  // draw(plot, chosen, note) with the indices of the chosen texts by name, now and whenever one is chosen; note is an element
  // for a sentence, above the plot or below it. Returns a function that draws again.
  controlled(element, choices, draw, { above = false, words = "note" } = {}) {
    const [plot, note] = [mdfl.make("div", { class: "plot" }), mdfl.make("p", { class: words, role: "status" })];
    const chosen = Object.fromEntries(Object.entries(choices).map(([name, { start = 0 }]) => [name, start]));
    const redraw = () => draw(plot, chosen, note);
    const controls = Object.entries(choices).filter(([, { texts }]) => texts.length > 1).map(([name, { label, texts, start = 0 }]) => {
      const choose = (value) => ((chosen[name] = Number(value)), redraw());
      return mdfl.choice(label, texts.map((text, i) => [i, text]), start, choose, name);
    });
    const row = controls.length ? [mdfl.make("div", { class: "row tools" }, ...controls)] : [];
    element.append(...row, ...(above ? [note, plot] : [plot, note]));
    redraw();
    return redraw;
  },

  // Returns a tree whose unpacked arrays are nested lists, as plotly takes them, with null for what is missing.
  plain(tree) {
    if (Array.isArray(tree)) return tree.map(mdfl.plain);
    if (tree === null || typeof tree !== "object") return tree;
    if (!("values" in tree && "shape" in tree)) return Object.fromEntries(Object.entries(tree).map(([k, v]) => [k, mdfl.plain(v)]));
    const rows = (axis, at) =>
      Array.from({ length: tree.shape[axis] }, (_, i) => {
        const next = at * tree.shape[axis] + i;
        if (axis + 1 < tree.shape.length) return rows(axis + 1, next);
        return Number.isFinite(tree.values[next]) ? tree.values[next] : null;
      });
    return rows(0, 0);
  },

  // Tells whether the page is shown in its dark theme.
  isDark() {
    return getComputedStyle(document.documentElement).colorScheme === "dark";
  },

  // Returns the colours of the theme by the names of the style sheet: ink, soft, rule, paper, shade, ...
  colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "soft", "rule", "paper", "shade", "static", "mobile", "accent"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  },

  // Returns red, green and blue of a colour #rrggbb, from 0 to 255.
  parse: (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)),

  // Returns the colour at a share of the way from one to another, as red, green and blue.
  between: (from, to, share) => from.map((part, k) => part + share * (to[k] - part)),

  // Returns the relative luminance of a colour (WCAG 2), from 0 to 1.
  luminance(parts) {
    const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = parts.map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  },

  // Returns black or white, whichever is read better on a colour; the contrast is 4.5 at least.
  inkOn: (parts) => (mdfl.luminance(parts) > 0.179 ? "#000000" : "#ffffff"),

  // Returns a colour, given as #rrggbb, so light that it can be seen on the paper of the dark theme (contrast of 3 at least);
  // in the light theme and on prints it stays as it is, as in the figures for papers. A colour given by its name in the
  // style sheet is the theme's own; it may have an opacity in hexadecimal, as in mobile/8c.
  visible(colour) {
    const theme = mdfl.colours();
    const [name, opacity = ""] = colour.split("/");
    if (Object.hasOwn(theme, name)) return theme[name] + opacity;
    const { paper } = theme;
    if (!/^#[0-9a-f]{6}$/i.test(colour) || !/^#[0-9a-f]{6}$/i.test(paper)) return colour;
    const ground = mdfl.luminance(mdfl.parse(paper));
    let parts = mdfl.parse(colour);
    while (mdfl.isDark() && (mdfl.luminance(parts) + 0.05) / (ground + 0.05) < 3) parts = mdfl.between(parts, [255, 255, 255], 1 / 8);
    return "#" + parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
  },

  // Draws traces with plotly in the colours of the page. Call it again to change what is drawn.
  plot(element, traces, layout = {}) {
    const { ink, soft, rule, paper } = mdfl.colours();
    // Plotly's own labels of a logarithmic axis have digits alone, such as 5 for 0.5, and prefixes, such as 100µ. With few
    // ticks they are at 1, 2 and 5 of each decade.
    const labels = (of) => (of?.type === "log" ? { tickformat: "~g", nticks: 4 } : {});
    const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: soft, tickcolor: soft, automargin: true };
    const whole = {
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 60, r: 16, t: 28, b: 48 },
      hoverlabel: { namelength: -1 },
      modebar: { bgcolor: paper, color: soft, activecolor: ink }, // plotly would take the transparent ground for black
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      ...layout,
    };
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis/.test(key))]))
      whole[name] = { ...axis, ...labels(layout[name]), ...layout[name] };
    const options = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
    const isNew = !element._fullLayout;
    Plotly.react(element, traces.map(mdfl.seen), whole, options);
    // Plotly's own way of keeping the width forgets the height.
    const fit = () => Math.abs(element._fullLayout.width - element.clientWidth) > 1 && Plotly.relayout(element, { autosize: true });
    if (isNew) new ResizeObserver(fit).observe(element);
    else fit();
  },

  // Whether charts are drawn for paper at present.
  printed: () => "printed" in document.documentElement.dataset,

  // How many panels `arrange` places in a row of so many pixels; on paper they are narrower, so that a chart fits one page.
  columns: (panels, room, { width = 300 } = {}) => {
    const least = mdfl.printed() ? 0.75 * width : width;
    return Math.max(1, Math.min(panels.length, Math.floor(Math.max(200, room) / least)));
  },

  // Places panels beside each other with one legend, as many in a row as there is room for. Each panel is {title, traces,
  // xaxis, yaxis}, the traces and axes as plotly has them. It may have horizontal lines as levels, each [height, colour], its own
  // height, and the room that it needs at its left side (aside). Returns the traces and the layout for `plot`.
  arrange(panels, width, size = {}) {
    const room = Math.max(200, width);
    const columns = mdfl.columns(panels, room, size);
    const asked = Array.from({ length: Math.ceil(panels.length / columns) }, (_, row) =>
      Math.max(...panels.slice(row * columns, (row + 1) * columns).map(({ height }) => height ?? size.height ?? 250)),
    );
    const below = 90; // between two rows, for labels and titles
    // On paper, rows are lower, and still lower where the chart and its caption would else not be on one page.
    const page = mdfl.printed() ? 860 - asked.length * below - 60 : Infinity;
    const shrink = Math.min(mdfl.printed() ? 0.85 : 1, Math.max(0.4, page / asked.reduce((sum, height) => sum + height, 0)));
    const heights = asked.map((height) => height * shrink);
    const whole = heights.reduce((sum, height) => sum + height + below, -below);
    const aside = Math.min(0.4, Math.max(90, ...panels.map(({ aside = 0 }) => aside)) / room);
    const wide = (1 - (columns - 1) * aside) / columns;
    const named = panels.some(({ traces }) => traces.some(({ name, showlegend }) => name && showlegend !== false));
    const above = named ? 90 : panels.some(({ title }) => title) ? 54 : 34; // the buttons, titles, and the legend
    const layout = { height: above + whole + 60, annotations: [], shapes: [], hovermode: "closest", barmode: "overlay", showlegend: named };
    const traces = panels.flatMap((panel, k) => {
      const row = Math.floor(k / columns);
      const left = (k % columns) * (wide + aside);
      const top = 1 - heights.slice(0, row).reduce((sum, height) => sum + height + below, 0) / whole;
      const n = k ? String(k + 1) : "";
      layout[`xaxis${n}`] = { domain: [left, left + wide], anchor: `y${n}`, ...panel.xaxis };
      layout[`yaxis${n}`] = { domain: [Math.max(0, top - heights[row] / whole), top], anchor: `x${n}`, ...panel.yaxis };
      const place = { x: left, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom", align: "left" };
      layout.annotations.push({ ...place, text: panel.title, showarrow: false });
      for (const [y, colour] of panel.levels ?? []) {
        const line = { color: mdfl.visible(colour), dash: "dot", width: 1.5 };
        layout.shapes.push({ type: "line", xref: `x${n} domain`, x0: 0, x1: 1, yref: `y${n}`, y0: y, y1: y, line });
      }
      return panel.traces.map((trace) => ({ ...trace, xaxis: `x${n}`, yaxis: `y${n}` }));
    });
    layout.legend = { orientation: "h", x: 0, y: 1 + 30 / whole, yanchor: "bottom" };
    layout.margin = { l: 50, r: 12, t: above, b: 60 };
    return [traces, layout];
  },

  // Draws now, and again whenever the width of an element has changed what `asked` returns.
  onWidth(element, asked, draw) {
    let known = null;
    const look = () => {
      if (asked() !== known) (known = asked()), draw();
    };
    new ResizeObserver(look).observe(element);
    look();
  },

  // Returns a trace of plotly whose colours can be seen in the theme; its numbers are those of the given trace.
  seen(trace) {
    const shown = (colour) => (Array.isArray(colour) ? colour.map(shown) : typeof colour === "string" ? mdfl.visible(colour) : colour);
    const of = (part) => (part && "color" in part ? { ...part, color: shown(part.color) } : part);
    const found = { ...trace };
    for (const name of ["line", "marker", "error_x", "error_y"]) if (name in found) found[name] = of(found[name]);
    return found;
  },
};

mdfl.register("plotly", (element, { traces, layout }) => {
  const given = mdfl.plain(traces);
  const draw = () => mdfl.plot(element, given, mdfl.plain(layout));
  draw();
  return draw;
});

mdfl.start = async () => {
  const root = document.documentElement;
  const panels = [...document.querySelectorAll(".panel[data-kind]")];
  const read = async (script) => mdfl.unpack(JSON.parse(script.textContent));
  const study = await read(document.getElementById("study"));

  const draw = async (panel) => {
    const chart = panel.querySelector(".chart");
    try {
      const { from, ...own } = await read(panel.querySelector("script"));
      panel.data = from ? { ...document.getElementById(from).data, ...own } : own; // another view of the data of that panel
      const redraw = mdfl.renderers[chart.dataset.kind](chart, panel.data, study);
      if (redraw) mdfl.drawn.push(redraw);
      panel.dataset.state = "drawn";
    } catch (error) {
      panel.dataset.state = "failed";
      chart.textContent = `This panel cannot be drawn: ${error}`;
      setTimeout(() => {
        throw error;
      });
    }
  };
  const redraw = () => mdfl.drawn.forEach((again) => again());

  // A print is in the light colours and as wide as the paper.
  let theme = null;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme ?? "";
    Object.assign(root.dataset, { theme: "light", printed: "" });
    redraw();
  });
  addEventListener("afterprint", () => {
    delete root.dataset.printed;
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    redraw();
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = mdfl.isDark() ? "light" : "dark";
    redraw();
  });
  // The links of the page leave the address as it is while a panel keeps its settings there.
  document.querySelector("nav").addEventListener("click", (event) => {
    const goal = event.target.hash && document.getElementById(event.target.hash.slice(1));
    if (!goal || !location.hash.includes("=")) return;
    event.preventDefault();
    goal.scrollIntoView();
  });

  // The page counts as loaded once all its panels are drawn, for programs that print it or take its picture: the browser waits
  // for a frame that is still being written. Within a frame without rights, as in a notebook, there is no such frame.
  const waiting = mdfl.make("iframe", { hidden: true, title: "drawing" });
  document.body.append(waiting);
  waiting.contentDocument?.open();
  root.dataset.state = "ready";
  for (const panel of panels) {
    await draw(panel);
    await new Promise((then) => setTimeout(then)); // what is drawn is shown, and the reader is heard
  }
  waiting.contentDocument?.close();
  waiting.remove();
};
document.addEventListener("DOMContentLoaded", mdfl.start);
