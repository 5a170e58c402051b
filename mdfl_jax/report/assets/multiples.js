"use strict";
// Small multiples: panels beside each other with one legend, as many in a row as the width has room for. Each panel is
// {title, x, y, traces, range}: x and y are the titles of its axes, and traces are those of plotly. It may have further
// entries of plotly's axes as xaxis and yaxis, and horizontal lines as levels, each [height, colour].
mdfl.register("multiples", (element, { panels, height = 250, width = 300 }) => {
  const given = panels.map((panel) => mdfl.plain(panel));
  let columns = 0;

  const draw = () => {
    const room = Math.max(200, element.clientWidth);
    columns = Math.max(1, Math.min(given.length, Math.floor(room / width)));
    const rows = Math.ceil(given.length / columns);
    const whole = rows * (height + 90);
    const [aside, below] = [75 / room, 90 / whole]; // between the panels, for titles and labels
    const wide = (1 - (columns - 1) * aside) / columns;
    const high = (1 - (rows - 1) * below) / rows;
    const named = given.some(({ traces }) => traces.some(({ name, showlegend }) => name && showlegend !== false));
    const above = named ? 90 : given.some(({ title }) => title) ? 54 : 34; // the buttons, titles, and the legend
    const layout = { height: whole + above, annotations: [], shapes: [], hovermode: "closest" };
    const traces = given.flatMap((panel, k) => {
      const [left, top] = [(k % columns) * (wide + aside), 1 - Math.floor(k / columns) * (high + below)];
      const n = k ? String(k + 1) : "";
      layout[`xaxis${n}`] = { title: { text: panel.x, standoff: 6 }, domain: [left, left + wide], anchor: `y${n}`, ...panel.xaxis };
      layout[`yaxis${n}`] = { domain: [top - high, top], anchor: `x${n}`, ...(panel.range ? { range: panel.range } : {}), ...panel.yaxis };
      const place = { x: left, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom", align: "left" };
      layout.annotations.push({ ...place, text: panel.title, showarrow: false });
      for (const [y, color] of panel.levels ?? [])
        layout.shapes.push({ type: "line", xref: `x${n} domain`, x0: 0, x1: 1, yref: `y${n}`, y0: y, y1: y, line: { color, dash: "dot", width: 1.5 } });
      return panel.traces.map((trace) => ({ ...trace, xaxis: `x${n}`, yaxis: `y${n}` }));
    });
    layout.legend = { orientation: "h", x: 0, y: 1 + 30 / whole, yanchor: "bottom" };
    layout.margin = { l: 50, r: 12, t: above, b: 45 };
    return mdfl.plot(element, traces, layout);
  };

  new ResizeObserver(() => {
    const fitting = Math.max(1, Math.min(given.length, Math.floor(Math.max(200, element.clientWidth) / width)));
    if (fitting !== columns) draw();
  }).observe(element);
  draw();
  return draw;
});
