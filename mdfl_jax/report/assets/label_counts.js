"use strict";
// The clients' data: the number of samples of each client above a heat map of clients and classes. If sweep points differ
// in their data, the reader chooses the division.
mdfl.register("label_counts", (element, { divisions }) => {
  const draw = (plot, chosen, note) => {
    const { counts, mobile, words } = divisions[chosen.division];
    const [clients, classes] = counts.shape;
    const at = (i, c) => counts.values[i * classes + c];
    const all = Array.from({ length: clients }, (_, i) => i);
    const rows = Array.from({ length: classes }, (_, c) => all.map((i) => at(i, c)));
    const sizes = all.map((i) => rows.reduce((sum, row) => sum + row[i], 0));
    const dark = mdfl.isDark();
    const { ink, paper, static: grey, mobile: strong } = mdfl.colours();
    const roomy = (plot.clientWidth - 80) / clients >= 24 && classes <= 30; // else the numbers are in the hover text only
    // From a shade beside the paper to the strongest contrast to it, the blues of the figures for papers.
    const ends = dark ? ["#1b3a57", "#a9d3f5"] : ["#d9e8f5", "#08306b"];
    const [low, high] = [Math.log10(0.5), Math.log10(Math.max(1, ...counts.values))];
    const [from, to] = ends.map(mdfl.parse);
    const inkOf = (count) => mdfl.inkOn(mdfl.between(from, to, (Math.log10(count) - low) / (high - low)));
    const filled = roomy ? rows.flatMap((row, c) => all.filter((i) => row[i] > 0).map((i) => [i, c, row[i]])) : [];
    const numbers = {
      type: "scatter",
      mode: "text",
      x: filled.map(([i]) => i),
      y: filled.map(([, c]) => c),
      text: filled.map(([, , count]) => String(count)),
      textfont: { size: 11, color: filled.map(([, , count]) => inkOf(count)) },
      hoverinfo: "skip",
      showlegend: false,
    };
    const kind = (i) => (mobile.values[i] ? "mobile" : "static");
    const bars = (of, name, color) => ({
      type: "bar",
      name,
      x: all.filter((i) => mobile.values[i] === of),
      y: all.filter((i) => mobile.values[i] === of).map((i) => sizes[i]),
      yaxis: "y2",
      width: 0.85,
      marker: { color },
      hovertemplate: "client %{x}: %{y} samples<extra></extra>",
    });
    const cells = {
      type: "heatmap",
      x: all,
      y: rows.map((_, c) => c),
      z: rows.map((row) => row.map((count) => (count > 0 ? Math.log10(count) : null))),
      customdata: rows.map((row) => row.map((count, i) => [count, kind(i)])),
      colorscale: ends.map((colour, k) => [k, colour]),
      zmin: low,
      zmax: high,
      showscale: !roomy,
      colorbar: { title: { text: "samples" }, tickvals: [0, 1, 2, 3, 4, 5], ticktext: ["1", "10", "100", "1000", "10,000", "100,000"], thickness: 12 },
      hovertemplate: "client %{x} (%{customdata[1]}), class %{y}: %{customdata[0]} samples<extra></extra>",
      xgap: clients <= 60 ? 1 : 0,
      ygap: classes <= 40 ? 1 : 0,
    };
    const some = mobile.values.some(Boolean);
    const layout = {
      height: 190 + Math.min(520, Math.max(150, (mdfl.printed() ? 17 : 22) * classes)),
      barmode: "overlay",
      showlegend: some,
      xaxis: { title: { text: "client" }, anchor: "y", range: [-0.5, clients - 0.5], showgrid: false, zeroline: false, dtick: clients <= 25 && roomy ? 1 : undefined },
      yaxis: { title: { text: "class" }, domain: [0, 0.72], range: [classes - 0.5, -0.5], showgrid: false, zeroline: false, dtick: classes <= 20 ? 1 : undefined },
      yaxis2: { title: { text: "samples" }, domain: [0.77, 1] },
      plot_bgcolor: paper,
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
    };
    note.textContent = divisions.length > 1 ? words : "";
    mdfl.plot(plot, [cells, numbers, bars(0, "static client", grey), ...(some ? [bars(1, "mobile client", strong)] : [])], layout);
  };

  return mdfl.controlled(element, { division: { label: "Data of", texts: divisions.map(({ name }) => name) } }, draw);
});
