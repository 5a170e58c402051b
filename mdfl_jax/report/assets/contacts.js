"use strict";
// The contacts: one of several pictures, each with a line for each sweep point. The reader chooses the picture.
mdfl.register("contacts", (element, { views }) => {
  const draw = (plot, chosen, note) => {
    const { x, y, about, logx, logy, lines } = views[chosen.view];
    note.textContent = about;
    const traces = lines.map(({ name, colour, dash, ...values }) => ({
      type: "scatter",
      mode: values.x.values.length > 1 ? "lines" : "markers",
      name,
      x: mdfl.plain(values.x),
      y: mdfl.plain(values.y),
      line: { color: colour, dash, width: 2 },
      marker: { color: colour },
      hovertemplate: `%{y:.3~g}<extra>%{fullData.name}</extra>`,
    }));
    const scale = (title, logarithmic) => ({ title: { text: title }, type: logarithmic ? "log" : "linear" });
    const layout = {
      height: 420,
      hovermode: "x unified",
      showlegend: true,
      xaxis: { ...scale(x, logx), hoverformat: ".4~g" },
      yaxis: { ...scale(y, logy), ...(logy ? {} : { rangemode: "tozero" }) },
    };
    return mdfl.plot(plot, traces, layout);
  };
  return mdfl.controlled(element, { view: { label: "Show", texts: views.map(({ label }) => label) } }, draw, { above: true });
});
