"use strict";
// Shows one pair, sends the answer, shows the next. All text goes in as text, never as markup.
(() => {
  const at = (id) => document.getElementById(id);
  const tab = sessionStorage.getItem("tab") || crypto.getRandomValues(new Uint32Array(2)).join("-");
  sessionStorage.setItem("tab", tab);
  const signs = { same: ["=", "the same"], similar: ["≈", "similar"], different: ["≠", "different"], missing: ["–", "missing"] };
  const words = { yes: "match", no: "no match" };
  let question = null, last = null, waiting = false, timer = 0;

  function percent(p) {
    if (p === null) return "–";
    const shown = Math.min(Math.max(p, 0.001), 0.999);  // never 0 or 100: nothing is certain
    return (p > shown ? "> " : p < shown ? "< " : "") + (100 * shown).toFixed(1) + " %";
  }

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function head(names) {
    const row = element("tr");
    for (const [name, className] of names) {
      const cell = element("th", name, className);
      cell.scope = "col";
      row.append(cell);
    }
    const made = element("thead");
    made.append(row);
    return made;
  }

  function cell(parts) {
    const made = element("td");
    for (const [text, differs] of parts) made.append(differs ? element("mark", text) : text);
    return made;
  }

  function compared(found) {
    const body = element("tbody");
    for (const { name, left, right, compare } of found.columns) {
      const row = element("tr"), title = element("th", name.replaceAll("_", "_\u200b"));
      title.scope = "row";
      const sign = element("td", undefined, "sign " + compare);
      const drawn = element("span", signs[compare][0]);
      drawn.setAttribute("aria-hidden", "true");
      sign.append(drawn, element("span", signs[compare][1], "hidden"));
      row.append(title, cell(left), sign, cell(right));
      body.append(row);
    }
    at("pair").replaceChildren(head([["", ""], [found.left, ""], ["", "sign"], [found.right, ""]]), body);
  }

  function others(own, side, found) {
    const list = found.rivals[side];
    if (!list.length) return [];
    const body = element("tbody");
    const cells = found.columns.map((column) => column[side].map((part) => part[0]).join(""));
    for (const one of list) {
      const row = element("tr");
      row.append(element("td", one.id), element("td", percent(one.probability), "number"));
      one.cells.forEach((text, k) => {
        const same = text && text.toLowerCase() === cells[k].toLowerCase();
        row.append(element("td", text, same ? "same" : ""));
      });
      body.append(row);
    }
    const table = element("table"), frame = element("div", undefined, "scroll");
    table.append(head([["", ""], ["probability", "number"], ...found.columns.map((column) => [column.name, ""])]), body);
    frame.append(table);
    return [element("h3", `Other candidates of ${own}`), frame];
  }

  function show(state, focus) {
    const { progress } = state, before = JSON.stringify(question);
    question = state.question;
    last = progress.last;
    at("answered").textContent = `${progress.yes + progress.no} (${progress.yes} yes, ${progress.no} no)`;
    at("links").textContent = progress.links + (progress.learning ? " …" : "");
    for (const name of ["precision", "recall"]) {
      at(name).textContent = percent(progress[name]);
      at(name + "-bar").value = progress[name] || 0;
    }
    at("message").textContent = state.message || (progress.error ? `The model was not fitted again: ${progress.error}` : "");
    at("last").textContent = last ? `Last answer: ${last[0]} and ${last[1]}, ${words[last[2]]}` : "";
    at("command").textContent = state.command;
    for (const name of ["yes", "no", "skip"]) at(name).disabled = !question;
    at("undo").disabled = !last;
    clearTimeout(timer);
    if (progress.learning || !question) timer = setTimeout(() => ask("state", {}, false), 1500);
    if (before === JSON.stringify(question) && !focus) return;
    at("pair").hidden = !question;
    if (question) {
      at("question").textContent = `Do these records match? The model says ${percent(question.probability)}`;
      compared(question);
      at("rivals").replaceChildren(...others(question.left, "left", question), ...others(question.right, "right", question));
    } else {
      at("question").textContent = "No doubtful pair is left.";
      at("rivals").replaceChildren();
    }
    if (focus) at("question").focus({ preventScroll: true });
  }

  async function ask(name, request, focus) {
    if (waiting) return;
    waiting = true;
    try {
      const answer = await fetch(name, { method: "POST", body: JSON.stringify({ tab, ...request }),
        headers: { "Content-Type": "application/json" } });
      if (!answer.ok) throw new Error(await answer.text());
      show(await answer.json(), focus);
    } catch (error) {
      at("message").textContent = error instanceof TypeError
        ? "The command has ended, so this answer was not written. Start it again and open the new address." : error.message;
    } finally {
      waiting = false;
    }
  }

  function act(name) {
    if (name === "undo") {
      if (last) ask("undo", { left: last[0], right: last[1] }, true);
    } else if (question) {
      ask("answer", { left: question.left, right: question.right, says: name }, true);
    }
  }

  const keys = { y: "yes", n: "no", s: "skip", u: "undo" };
  for (const name of Object.values(keys)) at(name).addEventListener("click", () => act(name));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const name = keys[event.key.toLowerCase()];
    if (name) { event.preventDefault(); act(name); }
  });
  ask("state", {}, true);
})();
