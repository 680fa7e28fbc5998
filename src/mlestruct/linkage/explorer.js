"use strict";
// Picks a record and shows its candidates. All text goes in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("records").textContent);
  const search = document.getElementById("search");
  const list = document.getElementById("list");
  const detail = document.getElementById("detail");
  const percent = (p) => p === null ? "?" : (100 * p).toFixed(p > 0.999 || p < 0.001 ? 2 : 1) + " %";
  const plain = (cell) => cell.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();
  const signed = (x) => (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(1);

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function answer(record) {
    const names = record.candidates.filter((candidate) => candidate.best).map((candidate) => candidate.id);
    return names.length ? names.join(", ") : record.none < 0.5 && record.candidates.length ? "undecided" : "no partner";
  }

  function show(record, button) {
    for (const other of list.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    detail.replaceChildren();
    detail.append(element("h3", `${record.id} → ${answer(record)}${answer(record) === "undecided" ? "" : ` (${percent(record.sure)})`}`));
    const own = element("p", undefined, "soft");
    own.textContent = data.columns.map((name, k) => [name, record.cells[k]]).filter((pair) => pair[1])
      .map((pair) => pair.join(": ")).join(" · ");
    detail.append(own, element("p", `No partner: ${percent(record.none)}`, "soft"));
    record.candidates.forEach((candidate, place) => detail.append(card(record, candidate, place)));
    if (!record.candidates.length) detail.append(element("p", "It has no candidates."));
  }

  function card(record, candidate, place) {
    const box = element("details", undefined, "candidate" + (candidate.best ? " chosen" : ""));
    box.open = candidate.best || place === 0;
    const head = element("summary");
    const refused = !candidate.best && candidate.p < 0.01;
    const mark = candidate.best ? " proposed" : refused ? " refused" : "";
    head.append(element("b", candidate.id), element("span", mark, "soft"), element("span", percent(candidate.p), "p"));
    const bar = element("div", undefined, "bar");
    bar.style.width = 100 * candidate.p + "%";
    box.append(head, bar);
    if (candidate.rival) {
      const [one, other, p] = candidate.rival;
      box.append(element("p", `The score speaks for this pair, but it competes with ${one} – ${other} (${percent(p)}).`, "soft"));
    }
    box.append(waterfall(record, candidate));
    return box;
  }

  // What each column adds to the score, each bar beginning where the one before ends.
  function waterfall(record, candidate) {
    const steps = Math.abs(data.start) >= 0.05 ? [["before any column", null, "", data.start]] : [];
    data.columns.forEach((name, k) => steps.push([name, record.cells[k], candidate.cells[k], candidate.terms[k]]));
    let low = 0, high = 0, sum = 0;
    for (const step of steps) { sum += step[3]; low = Math.min(low, sum); high = Math.max(high, sum); }
    const table = element("table", undefined, "waterfall");
    const width = Math.max(high - low, 1e-9);
    const line = (name, mine, other, from, to, label) => {
      const row = element("tr");
      const same = other && plain(mine) === plain(other);
      row.append(element("th", name.replaceAll("_", "_\u200b")),  // may break there
        element("td", other || (mine === null ? "" : "–"), other ? (same ? "same" : "different") : "soft"));
      const why = element("td");
      const part = element("div", undefined, "step" + (to < from ? " negative" : ""));
      part.style.marginLeft = (100 * (Math.min(from, to) - low)) / width + "%";
      part.style.width = (100 * Math.abs(to - from)) / width + "%";
      why.append(part);
      row.append(why, element("td", label, "number"));
      table.append(row);
    };
    sum = 0;
    for (const [name, mine, other, term] of steps) { line(name, mine, other, sum, sum + term, signed(term)); sum += term; }
    line("score", null, "", 0, sum, signed(sum));
    table.lastChild.className = "total";
    return table;
  }

  function fill() {
    const wanted = search.value.trim().toLowerCase();
    const found = data.records.filter((record) => !wanted
      || record.id.toLowerCase().includes(wanted)
      || record.cells.some((cell) => cell.toLowerCase().includes(wanted))
      || record.candidates.some((candidate) => candidate.id.toLowerCase().includes(wanted)));
    list.replaceChildren();
    for (const record of found.slice(0, 200)) {
      const item = element("li");
      const button = element("button");
      button.type = "button";
      button.append(element("span", record.id), element("span", percent(record.sure)));
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
