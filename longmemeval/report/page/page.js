"use strict";
// Texts from data reach the page through textContent alone.
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const several = data.runs.length > 1;
  const PORTION = 100;
  const OUTCOMES = {
    right: { sign: "✓", word: "right" },
    partial: { sign: "◐", word: "partly right" },
    wrong: { sign: "✗", word: "wrong" },
    unjudged: { sign: "○", word: "not evaluated" },
  };

  // Building elements ------------------------------------------------------------------------------------------------

  // Control characters and those that turn the direction of writing are shown, not obeyed.
  const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) =>
    String(text).replace(INVISIBLE, (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null) made.setAttribute(name, value);
    }
    for (const child of children.flat()) {
      if (child === null || child === undefined) continue;
      made.append(child instanceof Node ? child : visible(child));
    }
    return made;
  };

  const count = (number) => number.toLocaleString("en-US");
  const mark = ({ look, path }) => {
    const [svg, shape] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
    for (const [name, value] of [["class", `mark run-${look.colour}${look.hatched ? " hatched" : ""}`], ["viewBox", "-6.5 -6.5 13 13"], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
    shape.setAttribute("d", path);
    svg.append(shape);
    return svg;
  };

  // An excerpt is [text, characters left out, end].
  const excerpt = ([text, leftOut = 0, end = ""]) =>
    leftOut
      ? [text, element("span", { class: "left-out" }, ` … ${count(leftOut)} more characters${end ? " … " : ""}`), end]
      : [text];

  const outcomeOf = (credit) => (credit === null ? "unjudged" : credit >= 1 ? "right" : credit > 0 ? "partial" : "wrong");

  const share = (credit) => (credit !== null && credit > 0 && credit < 1 ? ` ${credit.toFixed(2)}` : "");

  const outcomeInWords = (credit) => {
    const { sign, word } = OUTCOMES[outcomeOf(credit)];
    return element("span", { class: outcomeOf(credit) }, `${sign} ${word}${share(credit)}`);
  };

  // A column is narrow where there are several runs: the sign is seen, the words are heard and shown by the pointer.
  const outcomeSign = (credit, stage) => {
    const { sign, word } = OUTCOMES[outcomeOf(credit)];
    const told = [word, stage].filter(Boolean).join(", ");
    return element(
      "span",
      { class: outcomeOf(credit), title: told },
      element("span", { "aria-hidden": "true" }, sign + share(credit)),
      element("span", { class: "hidden-text" }, told + share(credit)),
    );
  };

  // What opens below a question --------------------------------------------------------------------------------------

  let stored = null;
  const details = () => (stored ??= JSON.parse(document.getElementById("detail-data").textContent));

  const message = (number, evidence) => {
    const [id, date, speaker, content] = details().messages[number];
    const isEvidence = evidence.has(number);
    const head = element("span", { class: "head" }, isEvidence ? element("strong", {}, "Evidence · ") : null, [date, speaker, id].filter(Boolean).join(" · "));
    return element("div", { class: isEvidence ? "message evidence" : "message" }, head, element("span", { class: "text" }, excerpt(content)));
  };

  const messages = (title, listed, evidence, open) => {
    const total = listed.shown.length + (listed.more ?? 0);
    if (!total) return null;
    const found = listed.shown.filter((number) => evidence.has(number)).length;
    const label = `${title}: ${count(total)} ${total === 1 ? "message" : "messages"}${found ? `, ${found} of them evidence` : ""}`;
    const box = element("details", { open }, element("summary", {}, label));
    const fill = () => {
      if (box.childElementCount > 1) return;
      for (const number of listed.shown) box.append(message(number, evidence));
      if (listed.more) box.append(element("p", { class: "left-out" }, `… ${count(listed.more)} more messages`));
    };
    if (open) fill();
    else box.addEventListener("toggle", fill);
    return box;
  };

  const pairs = (...entries) =>
    element(
      "dl",
      { class: "pair" },
      entries.filter(([, ...value]) => value.flat().some((part) => part !== null && part !== "")).flatMap(([name, ...value]) => [element("dt", {}, name), element("dd", {}, value)]),
    );

  const verdict = (said) => {
    const label = said.label === null ? "not evaluated" : said.label ? "right" : "wrong";
    const score = said.score === undefined ? "" : `, ${said.score.toFixed(2)}`;
    return pairs(
      ["judge", details().judges[said.judge]],
      ["label", element("span", { class: said.label === null ? "unjudged" : label }, `${label}${score}`)],
      ["reply", excerpt(said.raw)],
      ["votes", (said.votes ?? []).join(" | ")],
      ["failed call", said.error ?? ""],
    );
  };

  const spent = (run) => {
    const parts = [];
    if (run.prompt_tokens) parts.push(`${count(run.prompt_tokens)} tokens as sent`);
    if (run.cost_usd) parts.push(`$${run.cost_usd.toFixed(4)}`);
    if (run.latency_ms) parts.push(run.latency_ms >= 1000 ? `${(run.latency_ms / 1000).toFixed(1)} s` : `${run.latency_ms} ms`);
    return parts.join(" · ");
  };

  const prompt = (run) => {
    if (!run.prompt) return null;
    const notes = run.note_prompts ? ` (${run.note_prompts} prompts that took notes came before it)` : "";
    return element("details", {}, element("summary", {}, `Prompt as sent${notes}`), run.prompt.map((part) => element("pre", { tabindex: "0" }, excerpt(part))));
  };

  const reach = (detail, evidence) => {
    const missed = [...evidence].filter((number) => !detail.recalled.shown.includes(number));
    const cut = missed.filter((number) => detail.cut.shown.includes(number));
    return `${evidence.size - missed.length} of ${evidence.size} messages in the prompt${cut.length ? `, ${cut.length} found but cut` : ""}`;
  };

  const runDetail = (run, index, detail, row, evidence, isTurns) => {
    const [first, ...others] = detail.verdicts;
    return element(
      "div",
      { class: "run" },
      element("h3", {}, mark(run), run.name, outcomeInWords(row.credits[index]), row.stages[index] ? element("span", { class: "quiet" }, row.stages[index]) : null, element("span", { class: "quiet" }, spent(detail))),
      pairs(
        ["answer", detail.hypothesis ? excerpt(detail.hypothesis) : element("span", { class: "unjudged" }, "no answer")],
        ["failed call", detail.error ?? ""],
        ["evidence", isTurns ? reach(detail, evidence) : ""],
        ["notes", (detail.notes ?? []).join("\n")],
      ),
      first ? verdict(first) : null,
      others.length ? element("details", {}, element("summary", {}, `${others.length} more ${others.length === 1 ? "judge" : "judges"}`), others.map(verdict)) : null,
      messages("In the prompt", detail.recalled, evidence, !several),
      messages("Found but kept out of the prompt", detail.cut, evidence, false),
      prompt(detail),
    );
  };

  const questionDetail = (row, place) => {
    const detail = details().questions[place];
    const evidence = new Set(detail.evidence);
    return element(
      "div",
      { class: "detail" },
      pairs(
        ["asked", `${detail.date}${detail.asked ? `\n${detail.asked}` : ""}`],
        ["gold answer", `${detail.answer}${detail.unanswerable ? " (cannot be answered from the history)" : ""}`],
        ["evidence", detail.evidence_sessions.length ? `sessions ${detail.evidence_sessions.join(", ")}` : "none labelled"],
      ),
      detail.evidence.length ? element("details", {}, element("summary", {}, `Evidence: ${detail.evidence.length} ${detail.evidence.length === 1 ? "message" : "messages"}`), detail.evidence.map((number) => message(number, evidence))) : null,
      data.runs.map((run, index) => runDetail(run, index, detail.runs[index], row, evidence, detail.evidence_is_turns)),
    );
  };

  // The table --------------------------------------------------------------------------------------------------------

  const rows = data.rows.map((row, place) => ({ ...row, place }));
  const state = { text: "", type: "", stage: "", outcomes: data.runs.map(() => ""), differ: false, sort: "", down: false, shown: PORTION };
  const open = new Set();

  let searchable = null;
  const haystack = (row) => {
    searchable ??= rows.map((one) => {
      const detail = details().questions[one.place];
      return [one.id, one.type, one.text, detail.answer, ...detail.runs.map((run) => run.hypothesis?.[0])].join("\n").toLowerCase();
    });
    return searchable[row.place];
  };

  const fits = (row) =>
    (!state.type || row.type === state.type) &&
    (!state.stage || row.stages.includes(state.stage)) &&
    (!state.differ || new Set(row.credits.map(outcomeOf)).size > 1) &&
    state.outcomes.every((wanted, index) => !wanted || outcomeOf(row.credits[index]) === wanted) &&
    (!state.text || haystack(row).includes(state.text));

  const sortKey = (row) => {
    if (state.sort.startsWith("run-")) return row.credits[Number(state.sort.slice(4))] ?? -1;
    return state.sort === "stage" ? row.stages[0] ?? "" : row[state.sort];
  };

  const selected = () => {
    const found = rows.filter(fits);
    if (!state.sort) return found;
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en"));
    return found.sort((a, b) => (state.down ? -1 : 1) * compare(sortKey(a), sortKey(b)) || a.place - b.place);
  };

  const columns = [
    ["text", "question"],
    ["id", "id"],
    ["type", "type"],
    ...data.runs.map((run, index) => [`run-${index}`, several ? run.name : "outcome", run]),
    ...(several ? [] : [["stage", "lost"]]),
  ];

  const toggle = (row, line, button) => {
    const opened = !open.has(row.place);
    button.setAttribute("aria-expanded", opened);
    line.classList.toggle("is-open", opened);
    if (opened) {
      open.add(row.place);
      line.after(detailLine(row));
    } else {
      open.delete(row.place);
      line.nextElementSibling.remove();
    }
  };

  const detailLine = (row) =>
    element("tr", { id: `detail-${row.place}` }, element("td", { class: "detail-cell", colspan: columns.length }, questionDetail(row, row.place)));

  const tableLines = (row) => {
    const isOpen = open.has(row.place);
    const button = element("button", { type: "button", class: "open", "aria-expanded": isOpen ? "true" : "false", "aria-controls": `detail-${row.place}` }, row.text);
    const line = element(
      "tr",
      { id: `question-${row.place}`, class: isOpen ? "is-open" : "" },
      element("td", {}, button),
      element("td", { class: "narrow-cell id" }, row.id),
      element("td", { class: "narrow-cell" }, row.type),
      row.credits.map((credit, index) => element("td", { class: "narrow-cell" }, several ? outcomeSign(credit, row.stages[index]) : outcomeInWords(credit))),
      several ? null : element("td", { class: "narrow-cell" }, row.stages[0] ?? ""),
    );
    button.addEventListener("click", () => toggle(row, line, button));
    return isOpen ? [line, detailLine(row)] : [line];
  };

  const body = element("tbody");
  const headers = columns.map(([key, label, run]) => {
    const button = element("button", { type: "button", click: () => sortBy(key) }, run && several ? mark(run) : label, element("span", { "aria-hidden": "true" }, ""));
    if (run && several) button.setAttribute("aria-label", `run ${run.name}`);
    return element("th", { scope: "col", "data-key": key }, button);
  });

  const show = () => {
    const found = selected();
    body.replaceChildren(...found.slice(0, state.shown).flatMap(tableLines));
    document.getElementById("count").textContent = `${count(found.length)} of ${count(rows.length)} questions`;
    const left = found.length - state.shown;
    const more = (label, portion) => element("button", { type: "button", click: () => { state.shown += portion; show(); } }, label);
    document.getElementById("more").replaceChildren(...(left > 0 ? [more(`Show ${count(Math.min(PORTION, left))} more`, PORTION), more(`Show all ${count(found.length)}`, left)] : []));
    for (const header of headers) {
      const active = header.dataset.key === state.sort;
      if (active) header.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
      header.querySelector("button").lastChild.textContent = active ? (state.down ? " ↓" : " ↑") : "";
    }
  };

  // Three presses: up, down, as in the data.
  const sortBy = (key) => {
    if (state.sort !== key) Object.assign(state, { sort: key, down: false });
    else if (!state.down) state.down = true;
    else Object.assign(state, { sort: "", down: false });
    show();
  };

  // Filters ----------------------------------------------------------------------------------------------------------

  const changed = () => {
    state.shown = PORTION;
    show();
  };

  const choice = (label, options, set) => {
    const select = element("select", { "aria-label": label, change: (event) => { set(event.target.value); changed(); } }, element("option", { value: "" }, "all"), options.map(([value, word]) => element("option", { value }, word)));
    return element("label", {}, label, select);
  };

  const distinct = (values) => [...new Set(values.filter(Boolean))].map((value) => [value, value]);
  const outcomes = Object.keys(OUTCOMES).filter((name) => rows.some((row) => row.credits.some((credit) => outcomeOf(credit) === name)));

  const filters = document.getElementById("filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.append(
    element("label", {}, "search", element("input", { type: "search", "aria-label": "search", placeholder: "question, answer, id", input: (event) => { state.text = event.target.value.trim().toLowerCase(); changed(); } })),
    choice("type", distinct(rows.map((row) => row.type)), (value) => { state.type = value; }),
    choice("lost at", distinct(rows.flatMap((row) => row.stages)), (value) => { state.stage = value; }),
    ...data.runs.map((run, index) => choice(several ? run.name : "outcome", outcomes.map((name) => [name, OUTCOMES[name].word]), (value) => { state.outcomes[index] = value; })),
  );
  if (several) filters.append(element("label", { class: "tick" }, element("input", { type: "checkbox", change: (event) => { state.differ = event.target.checked; changed(); } }), "only where runs differ"));

  document.getElementById("question-box").append(element("table", { class: "questions" }, element("thead", {}, element("tr", {}, headers)), body));
  show();

  // Light and dark ---------------------------------------------------------------------------------------------------

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  theme.hidden = false;
  nameTheme();
})();
