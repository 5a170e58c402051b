"use strict";
// A matrix of settings by rivals, coloured by the difference to a reference. A click on a cell shows the setting's curves.
mdfl.register("rivals", (element, data) => {
  const rows = (array) => mdfl.plain(array); // [R][C]
  const known = (value) => value !== null && Number.isFinite(value);
  const points = rows(data.points);

  const draw = (plot, chosen, note) => {
    const of = data.measures[chosen.measure];
    const found = of.references[chosen.reference];
    const [mean, half, alone, level] = [found.mean, found.half, found.alone, of.level].map(rows);
    const columns = data.rivals.map((_, c) => c).filter((c) => c !== chosen.reference);
    const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(1);
    const cell = (r, c) => {
      if (!known(mean[r][c])) return "not compared";
      const parts = [`${data.settings[r]}`, `${data.rivals[c]}: ${level[r][c].toFixed(2)} %`];
      const within = known(half[r][c]) ? ` ± ${half[r][c].toFixed(2)} (by itself ± ${alone[r][c].toFixed(2)})` : "";
      parts.push(`over ${data.rivals[chosen.reference]}: ${mean[r][c].toFixed(2)}${within} points`);
      return parts.join("<br>");
    };
    // A tenth of the cells may be beyond full colour: else one rival far behind leaves all others pale.
    const sizes = mean.flat().filter(known).map(Math.abs).sort((a, b) => a - b);
    const largest = Math.max(data.leastRange, sizes[Math.floor(data.inColour * (sizes.length - 1))] ?? 0);
    const dark = mdfl.isDark();
    const middle = dark ? "#2b2b2b" : "#f7f7f7";
    const heat = {
      type: "heatmap",
      z: mean.map((line) => columns.map((c) => line[c])),
      customdata: mean.map((_, r) => columns.map((c) => cell(r, c))),
      hovertemplate: "%{customdata}<extra></extra>",
      colorscale: [[0, "#b2182b"], [0.25, dark ? "#8c3a34" : "#f4a582"], [0.5, middle], [0.75, dark ? "#2f6690" : "#92c5de"], [1, "#2166ac"]],
      zmin: -largest,
      zmax: largest,
      xgap: 1,
      ygap: 1,
      colorbar: { title: { text: "points", side: "right" }, thickness: 12 },
    };
    const cells = mean.flatMap((line, r) => columns.map((c, x) => ({ r, x, value: line[c], sure: Math.abs(line[c]) > half[r][c] })));
    const written = cells.filter(({ value }) => known(value));
    const ink = ({ value }) => (dark || Math.abs(value) > 0.6 * largest ? "#ffffff" : "#000000");
    const texts = {
      type: "scatter",
      mode: "text",
      x: written.map(({ x }) => x),
      y: written.map(({ r }) => r),
      text: written.map(({ value, sure }) => (sure ? `<b>${signed(value)}</b>` : signed(value))),
      textfont: { color: written.map(ink), size: 12 },
      hoverinfo: "skip",
      showlegend: false,
    };
    const ticks = (labels) => ({ tickvals: labels.map((_, i) => i), ticktext: labels, showgrid: false, zeroline: false, automargin: true });
    const layout = {
      height: 120 + 26 * data.settings.length,
      xaxis: { ...ticks(columns.map((c) => data.rivals[c])), side: "top", range: [-0.5, columns.length - 0.5], tickangle: -35 },
      yaxis: { ...ticks(data.settings), range: [data.settings.length - 0.5, -0.5] },
      margin: { l: 60, r: 10, t: 60, b: 10 },
      hovermode: "closest",
    };
    note.textContent = found.words ? `Settings with an interval on one side of zero: ${found.words}.` : "";
    mdfl.plot(plot, [heat, texts], layout);
    plot.removeAllListeners?.("plotly_click");
    plot.on?.("plotly_click", ({ points: [hit] }) => show(Math.round(hit.y)));
  };

  // The curves of a setting, in the panel of the curves. It is drawn only once it has been seen.
  const show = (r) => {
    const panel = document.getElementById("accuracy");
    const members = points[r].filter((p) => p >= 0);
    panel?.scrollIntoView();
    const set = (tries) => {
      const { explorer } = panel?.querySelector(".chart") ?? {};
      if (explorer) explorer.set("points", new Set(members));
      else if (tries) setTimeout(() => set(tries - 1), 50);
    };
    set(200);
  };
  const choices = {
    measure: { label: "Accuracy", texts: data.measures.map(({ name }) => name) },
    reference: { label: "compared with", texts: data.rivals, start: data.reference },
  };
  element.classList.add("explorer");
  return mdfl.controlled(element, choices, draw, { words: "told" });
});
