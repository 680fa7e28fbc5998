"use strict";
// Picks a record and shows its candidates. All text goes in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("records").textContent);
  const search = document.getElementById("search");
  const list = document.getElementById("list");
  const detail = document.getElementById("detail");
  const percent = (p) => (100 * p).toFixed(p > 0.999 || p < 0.001 ? 2 : 1) + " %";

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function answer(record) {
    return record.best < 0 ? { text: "no partner", p: record.none }
      : { text: record.candidates[record.best].id, p: record.candidates[record.best].p };
  }

  function show(record, button) {
    for (const other of list.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    detail.replaceChildren();
    const chosen = answer(record);
    detail.append(element("h3", `${record.id} → ${chosen.text} (${percent(chosen.p)})`));
    const own = element("p", undefined, "soft");
    own.textContent = data.columns.map((name, k) => `${name}: ${record.cells[k] || "–"}`).join(" · ");
    detail.append(own, element("p", `No partner: ${percent(record.none)}`, "soft"));
    record.candidates.forEach((candidate, place) => detail.append(card(record, candidate, place)));
    if (!record.candidates.length) detail.append(element("p", "No other record shares a rare word with it."));
  }

  function card(record, candidate, place) {
    const box = element("section", undefined, "candidate" + (place === record.best ? " chosen" : ""));
    const head = element("h3", candidate.id);
    head.append(element("span", percent(candidate.p)));
    const bar = element("div", undefined, "bar");
    bar.style.width = 100 * candidate.p + "%";
    const table = element("table");
    const widest = Math.max(...candidate.terms.map(Math.abs), 1e-9);
    data.columns.forEach((name, k) => {
      const row = element("tr");
      const cell = candidate.cells[k];
      const same = cell && cell === record.cells[k];
      row.append(element("th", name), element("td", cell || "–", cell ? (same ? "same" : "different") : "soft"));
      const why = element("td");
      const part = element("div", undefined, "bar" + (candidate.terms[k] < 0 ? " negative" : ""));
      part.style.width = (100 * Math.abs(candidate.terms[k])) / widest + "%";
      part.title = candidate.terms[k].toFixed(2);
      why.append(part);
      row.append(why, element("td", (candidate.terms[k] >= 0 ? "+" : "") + candidate.terms[k].toFixed(1), "number"));
      table.append(row);
    });
    box.append(head, bar, table);
    return box;
  }

  function fill() {
    const wanted = search.value.trim().toLowerCase();
    const found = data.records.filter((record) => !wanted
      || record.id.toLowerCase().includes(wanted)
      || record.cells.some((cell) => cell.toLowerCase().includes(wanted)));
    list.replaceChildren();
    for (const record of found.slice(0, 200)) {
      const item = element("li");
      const button = element("button");
      const chosen = answer(record);
      button.type = "button";
      button.append(element("span", record.id), element("span", percent(chosen.p)));
      button.addEventListener("click", () => show(record, button));
      item.append(button);
      list.append(item);
    }
    document.getElementById("count").textContent =
      found.length > 200 ? `${found.length} records, the first 200 are listed` : `${found.length} records`;
    const first = list.querySelector("button");
    if (first) first.click(); else detail.replaceChildren(element("p", "Nothing found."));
  }

  search.addEventListener("input", fill);
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const item = document.activeElement.closest("li");
    const next = item && (event.key === "ArrowDown" ? item.nextElementSibling : item.previousElementSibling);
    if (next) { next.firstElementChild.focus(); next.firstElementChild.click(); event.preventDefault(); }
  });
  fill();
})();
