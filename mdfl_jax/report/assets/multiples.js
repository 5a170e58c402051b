"use strict";
// Small multiples: panels beside each other with one legend, as `mdfl.arrange` places them (report/picture.py).
mdfl.register("multiples", (element, { panels, ...size }) => {
  const given = panels.map((panel) => mdfl.plain(panel));
  const draw = () => mdfl.plot(element, ...mdfl.arrange(given, element.clientWidth, size));
  mdfl.onWidth(element, () => mdfl.columns(given, element.clientWidth, size), draw);
  return draw;
});
