"use strict";
// The part of a served page (report/serve.py) that follows its files: it asks for the version of the page, and loads
// the page anew when there is another one. Places, controls and the theme stay as the reader has left them.
(() => {
  const EVERY = 2000; // milliseconds between two questions
  const KEPT = "mdfl-live";
  const waiting = {}; // the state of panels that were not drawn again yet, by panel
  const controls = (panel) => [...panel.querySelectorAll("input, select, textarea")];
  const pressed = (panel) => [...panel.querySelectorAll("button[aria-pressed]")];
  const headings = () => [...document.querySelectorAll("th")];
  const places = () => [...document.querySelectorAll("main .panel, main > *")].filter((element) => element.id);

  // Returns the state that a new page is given: the values of the controls of each panel, open parts, theme, place.
  const state = () => {
    const panels = {};
    for (const panel of document.querySelectorAll(".panel[id]"))
      panels[panel.id] = waiting[panel.id] ?? {
        values: controls(panel).map((control) => {
          if (control.type === "checkbox" || control.type === "radio") return control.checked;
          if (control.multiple) return [...control.selectedOptions].map((option) => option.value);
          return control.value;
        }),
        pressed: pressed(panel).map((button) => button.getAttribute("aria-pressed")),
      };
    // The reader looks at one panel. Its distance from the top of the window is kept, for others may change their height.
    const seen = places().find((element) => element.getBoundingClientRect().bottom > 0);
    return {
      panels,
      open: [...document.querySelectorAll("details")].map((part) => part.open),
      sorted: headings().map((heading) => heading.getAttribute("aria-sort")),
      theme: document.documentElement.dataset.theme ?? null,
      at: scrollY,
      seen: seen ? { id: seen.id, top: seen.getBoundingClientRect().top } : null,
      focus: document.activeElement?.id || null,
    };
  };

  const restoreControl = (control, value) => {
    if (control.type === "file" || value === undefined) return;
    if (control.type === "checkbox" || control.type === "radio") {
      if (control.checked === value) return;
      control.checked = value;
    } else if (control.multiple) {
      for (const option of control.options) option.selected = value.includes(option.value);
    } else {
      if (control.value === value) return;
      const before = control.value;
      control.value = value;
      if (control.value !== value) {
        control.value = before; // the new page no longer has this choice
        return;
      }
    }
    control.dispatchEvent(new Event("input", { bubbles: true }));
    control.dispatchEvent(new Event("change", { bubbles: true }));
  };

  const restorePanel = (panel, kept) => {
    // A control may make others, so each is looked up when it is its turn.
    kept.values.forEach((value, i) => {
      const control = controls(panel)[i];
      if (control) restoreControl(control, value);
    });
    kept.pressed.forEach((value, i) => {
      const button = pressed(panel)[i];
      if (button && button.getAttribute("aria-pressed") !== value) button.click();
    });
  };

  // The headings of a table sort it: a click or two bring the order back.
  const restoreOrder = (sorted) => {
    const i = sorted.findIndex((order) => order === "ascending" || order === "descending");
    const heading = headings()[i];
    for (let clicks = 0; heading && clicks < 2 && heading.getAttribute("aria-sort") !== sorted[i]; clicks++)
      heading.querySelector("button")?.click();
  };

  const restore = ({ panels, open, sorted, theme, at, seen, focus }) => {
    if (theme && document.documentElement.dataset.theme !== theme) document.getElementById("theme")?.click();
    document.querySelectorAll("details").forEach((part, i) => {
      if (open[i] !== undefined) part.open = open[i];
    });
    restoreOrder(sorted);
    const back = () => {
      const element = seen && document.getElementById(seen.id);
      if (element) scrollBy(0, element.getBoundingClientRect().top - seen.top);
      else scrollTo(0, at);
    };
    for (const panel of document.querySelectorAll(".panel[id]")) {
      const kept = panels[panel.id];
      if (!kept) continue;
      waiting[panel.id] = kept;
      const once = () => {
        delete waiting[panel.id];
        restorePanel(panel, kept);
        back();
      };
      const done = () => !panel.dataset.kind || panel.dataset.state === "drawn" || panel.dataset.state === "failed";
      if (done()) once();
      else {
        const drawn = new MutationObserver(() => {
          if (!done()) return;
          drawn.disconnect();
          once();
        });
        drawn.observe(panel, { attributes: true, attributeFilter: ["data-state"] });
      }
    }
    back();
    document.getElementById(focus)?.focus({ preventScroll: true });
  };

  // Returns whether the reader must not be interrupted now: a map plays, or a button of the mouse is down.
  let down = false;
  addEventListener("pointerdown", () => (down = true), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (down = false), true);
  const busy = () => down || [...document.querySelectorAll(".chart")].some((chart) => chart.map?.playing);

  const tell = (text) => {
    let line = document.getElementById("live");
    if (!line) {
      line = document.createElement("p");
      line.id = "live";
      line.className = "note";
      line.setAttribute("role", "status");
      document.querySelector("main")?.prepend(line);
    }
    if (line.textContent !== text) line.textContent = text;
  };

  const version = Number(document.currentScript.dataset.version);
  const ask = async () => {
    try {
      const answer = await (await fetch("/version", { cache: "no-store" })).json();
      if (answer.version !== version && !busy()) {
        sessionStorage.setItem(KEPT, JSON.stringify(state()));
        location.reload();
        return;
      }
      tell(answer.error ? `The page stays as it was, for it cannot be made anew: ${answer.error}` : "This page follows the study.");
    } catch {
      tell("The server has ended; this page no longer follows the study.");
    }
    setTimeout(ask, EVERY);
  };

  addEventListener("DOMContentLoaded", () => {
    history.scrollRestoration = "manual";
    const kept = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    if (kept) restore(JSON.parse(kept));
    ask();
  });
})();
