"use strict";
// The part of the page of an unfinished study (report/follow.py): it loads the page anew every few seconds. Places,
// controls and the theme stay as the reader has left them.
(() => {
  const EVERY = 10000; // milliseconds until the page is loaded anew
  const KEPT = "mdfl-follow";
  const waiting = {}; // the state of sections whose panel was not drawn again yet, by section
  const sections = () => [...document.querySelectorAll("main section[id]")];
  const controls = (section) => [...section.querySelectorAll("input, select")];
  const headings = (section) => [...section.querySelectorAll("thead th")];
  const valueOf = (control) => (control.type === "checkbox" ? "checked" : "value");

  // Returns the state that a new page is given: controls and the order of tables by section, open parts, theme, place.
  const state = () => {
    const kept = {};
    for (const section of sections())
      kept[section.id] = waiting[section.id] ?? {
        values: controls(section).map((control) => control[valueOf(control)]),
        orders: headings(section).map((heading) => [heading.textContent, heading.getAttribute("aria-sort")]),
      };
    // The reader looks at one section. Its distance from the top of the window is kept, for others may change their height.
    const seen = sections().find((section) => section.getBoundingClientRect().bottom > 0);
    return {
      kept,
      open: [...document.querySelectorAll("details")].map((part) => part.open),
      theme: document.documentElement.dataset.theme ?? null,
      at: scrollY,
      seen: seen ? { id: seen.id, top: seen.getBoundingClientRect().top } : null,
      focus: document.activeElement?.id || null,
    };
  };

  const restoreControl = (control, value) => {
    const key = valueOf(control);
    const before = control[key];
    if (before === value) return;
    control[key] = value;
    if (control[key] !== value) {
      control[key] = before; // the new page no longer has this choice
      return;
    }
    control.dispatchEvent(new Event("input", { bubbles: true }));
    control.dispatchEvent(new Event("change", { bubbles: true }));
  };

  const restoreSection = (section, { values, orders }) => {
    // A control may make others, so each is looked up when it is its turn.
    values.forEach((value, i) => {
      const control = controls(section)[i];
      if (control) restoreControl(control, value);
    });
    // The headings of a table sort it: a click or two bring the order back.
    for (const [title, order] of orders.filter(([, order]) => order)) {
      const heading = headings(section).find((one) => one.textContent === title);
      for (let clicks = 0; heading && clicks < 2 && heading.getAttribute("aria-sort") !== order; clicks++)
        heading.querySelector("button").click();
    }
  };

  const restore = ({ kept, open, theme, at, seen, focus }) => {
    if (theme && document.documentElement.dataset.theme !== theme) document.getElementById("theme").click();
    document.querySelectorAll("details").forEach((part, i) => {
      if (open[i] !== undefined) part.open = open[i];
    });
    let left = false; // whether the reader has gone on from the place
    for (const act of ["wheel", "touchstart", "pointerdown", "keydown"])
      addEventListener(act, () => (left = true), { capture: true, once: true, passive: true });
    const back = () => {
      const section = seen && document.getElementById(seen.id);
      if (left) return;
      if (section) scrollBy(0, section.getBoundingClientRect().top - seen.top);
      else scrollTo(0, at);
    };
    for (const section of sections()) {
      const found = kept[section.id];
      if (!found) continue;
      waiting[section.id] = found;
      const once = () => {
        delete waiting[section.id];
        restoreSection(section, found);
        back();
      };
      const done = () => !section.dataset.kind || section.dataset.state === "drawn" || section.dataset.state === "failed";
      if (done()) once();
      else {
        const drawn = new MutationObserver(() => {
          if (!done()) return;
          drawn.disconnect();
          once();
        });
        drawn.observe(section, { attributes: true, attributeFilter: ["data-state"] });
      }
    }
    back();
    document.getElementById(focus)?.focus({ preventScroll: true });
  };

  // Returns whether the reader must not be interrupted now: a map plays that the reader has started, or a button of the mouse is down.
  let down = false;
  addEventListener("pointerdown", () => (down = true), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (down = false), true);
  const busy = () => down || [...document.querySelectorAll(".chart")].some((chart) => chart.map?.started);

  const again = () => {
    if (!busy()) {
      sessionStorage.setItem(KEPT, JSON.stringify(state()));
      location.reload();
    } else setTimeout(again, 1000);
  };

  addEventListener("DOMContentLoaded", () => {
    history.scrollRestoration = "manual";
    const kept = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    if (kept) restore(JSON.parse(kept));
    setTimeout(again, EVERY);
  });
})();
