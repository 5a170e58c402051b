"use strict";
// Tables of class "sortable": a button in each heading sorts the rows by their raw numbers (data-value), a second press the
// other way round, and a third one restores the order of the study. A missing value stays at the end. Long tables get a
// field that keeps the rows whose names contain all the words of it.
(() => {
  const MANY = 15;

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!("value" in cell.dataset)) return null;
    return cell.dataset.value === "inf" ? Infinity : Number(cell.dataset.value);
  };

  const sorted = (rows, column, direction) => {
    const numeric = rows.some((row) => value(row, column) !== null);
    const text = (row) => row.cells[column].textContent.trim();
    const compare = (a, b) => {
      if (!numeric) return direction * text(a).localeCompare(text(b), "en", { numeric: true });
      const [x, y] = [value(a, column), value(b, column)];
      if (x === null || y === null) return (x === null) - (y === null);
      return direction * (x - y) || 0; // Infinity - Infinity is no number
    };
    return [...rows].sort(compare);
  };

  const makeSortable = (table) => {
    const [body] = table.tBodies;
    const rows = [...body.rows];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const first = heading.classList.contains("name") ? 1 : -1; // names from A, numbers from the largest
      const words = { 1: "ascending", [-1]: "descending" };
      const press = () => {
        const before = heading.getAttribute("aria-sort");
        const direction = before === null ? first : before === words[first] ? -first : 0;
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        if (direction) heading.setAttribute("aria-sort", words[direction]);
        body.append(...(direction ? sorted(rows, column, direction) : rows));
      };
      const button = mdfl.make("button", { type: "button", text: heading.textContent, title: "Sort by this column", onclick: press });
      heading.replaceChildren(button);
    });
    if (rows.length > MANY || "filter" in table.dataset) addFilter(table, rows);
  };

  const addFilter = (table, rows) => {
    const told = mdfl.make("span", { class: "note", role: "status", text: `${rows.length} rows` });
    const keep = (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/);
      for (const row of rows) {
        const names = [...row.querySelectorAll(".name")].map((cell) => cell.textContent.toLowerCase());
        const text = names.join(" ");
        row.hidden = !words.every((word) => text.includes(word));
      }
      told.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
    };
    const field = mdfl.make("input", { type: "search", id: `${table.closest("section").id}-find`, oninput: keep });
    const label = mdfl.make("label", {}, "Filter rows by name", field);
    table.parentElement.before(mdfl.make("div", { class: "row tools" }, label, told));
  };

  // The edge of a table that goes on to the right is dashed.
  const markEdge = (box) => {
    const mark = () => {
      const hidden = box.scrollWidth - box.clientWidth;
      box.classList.toggle("fits", hidden <= 2);
      box.classList.toggle("goes-on", hidden - box.scrollLeft > 2);
    };
    box.addEventListener("scroll", mark);
    new ResizeObserver(mark).observe(box);
  };

  const addCopying = (entry) => {
    const code = entry.querySelector("code");
    const copy = async () => {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
      button.removeAttribute("aria-label");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        // It stays selected: the browser lets no page write to the clipboard, or its user does not.
      }
    };
    const name = entry.previousElementSibling.textContent.toLowerCase();
    const button = mdfl.make("button", { type: "button", text: "Copy", "aria-label": `Copy the ${name}`, onclick: copy });
    entry.append(button);
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(makeSortable);
    document.querySelectorAll(".wide").forEach(markEdge);
    document.querySelectorAll("dd.copied").forEach(addCopying);
  });
})();
