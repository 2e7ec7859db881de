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
    const words = [word, stage].filter(Boolean).join(", ");
    return element(
      "span",
      { class: outcomeOf(credit), title: words },
      element("span", { "aria-hidden": "true" }, sign + share(credit)),
      element("span", { class: "hidden-text" }, words + share(credit)),
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
  // What the address keeps, as `#?type=…&open=…`; `outcome-2` is what run 2 made of a question.
  const fresh = () => ({ text: "", type: "", stage: "", pattern: "", sort: "", down: "", ...Object.fromEntries(data.runs.map((_, index) => [`outcome-${index}`, ""])) });
  let state = fresh();
  let portion = PORTION;
  const open = new Set();
  const places = new Map(rows.map((row) => [row.id, row.place]));

  const address = () => {
    const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
    for (const place of open) kept.append("open", rows[place].id);
    return String(kept);
  };

  const remember = () => {
    const kept = address();
    if (kept || location.hash.startsWith("#?")) history.replaceState(null, "", `#${kept ? `?${kept}` : "questions"}`);
  };

  const recall = () => {
    if (!location.hash.startsWith("#?")) return false;
    const kept = new URLSearchParams(location.hash.slice(2));
    state = fresh();
    for (const name of Object.keys(state)) state[name] = kept.get(name) ?? "";
    open.clear();
    for (const id of kept.getAll("open")) if (places.has(id)) open.add(places.get(id));
    portion = PORTION;
    return true;
  };

  const full = (credit) => (credit ?? 0) >= 1;
  const patterns = {
    right: (row) => data.among.every((place) => full(row.credits[place])),
    differ: (row) => !patterns.right(row) && new Set(data.among.map((place) => row.credits[place] ?? 0)).size > 1,
    wrong: (row) => !patterns.right(row) && !patterns.differ(row),
    only: (row, index) => full(row.credits[index]) && data.among.filter((place) => full(row.credits[place])).length === 1,
    won: (row, index) => (row.credits[index] ?? 0) > (row.credits[0] ?? 0),
    lost: (row, index) => (row.credits[index] ?? 0) < (row.credits[0] ?? 0),
  };
  const against = () => {
    const [name, index] = state.pattern.split("-");
    const run = data.runs[index]?.name;
    return run && (name === "won" || name === "lost") ? `, ${name} by ${run} against ${data.runs[0].name}` : "";
  };
  const inPattern = (row) => {
    const [name, index] = state.pattern.split("-");
    return !state.pattern || !Object.hasOwn(patterns, name) || patterns[name](row, Number(index));
  };

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
    inPattern(row) &&
    row.credits.every((credit, index) => !state[`outcome-${index}`] || outcomeOf(credit) === state[`outcome-${index}`]) &&
    (!state.text || haystack(row).includes(state.text.trim().toLowerCase()));

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
    ...(several ? [] : [["stage", "why wrong"]]),
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
    remember();
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
    const button = element("button", { type: "button", click: () => sortBy(key) }, run && several ? [element("span", { class: "upright" }, run.name), mark(run)] : label, element("span", { "aria-hidden": "true" }, ""));
    if (run && several) for (const attribute of ["aria-label", "title"]) button.setAttribute(attribute, `run ${run.name}`);
    return element("th", { scope: "col", "data-key": key }, button);
  });

  const show = () => {
    const found = selected();
    body.replaceChildren(...found.slice(0, portion).flatMap(tableLines));
    const filtered = Object.entries(state).some(([name, value]) => value && name !== "sort" && name !== "down");
    const clear = element("button", { type: "button", click: () => { state = { ...fresh(), sort: state.sort, down: state.down }; changed(); } }, "clear filters");
    document.getElementById("count").replaceChildren(`${count(found.length)} of ${count(rows.length)} questions${against()} `, ...(filtered ? [clear] : []));
    const left = found.length - portion;
    const more = (label, added) => element("button", { type: "button", click: () => { portion += added; show(); } }, label);
    document.getElementById("more").replaceChildren(...(left > 0 ? [more(`Show ${count(Math.min(PORTION, left))} more`, PORTION), more(`Show all ${count(found.length)}`, left)] : []));
    sync.forEach((set) => set());
    remember();
    for (const header of headers) {
      const active = header.dataset.key === state.sort;
      if (active) header.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
      header.querySelector("button").lastChild.textContent = active ? (state.down ? " ↓" : " ↑") : "";
    }
  };

  // Three presses: up, down, as in the data.
  const sortBy = (key) => {
    if (state.sort !== key) Object.assign(state, { sort: key, down: "" });
    else if (!state.down) state.down = "1";
    else Object.assign(state, { sort: "", down: "" });
    show();
  };

  // Filters ----------------------------------------------------------------------------------------------------------

  const changed = () => {
    portion = PORTION;
    show();
  };

  // Each brings a control to what the state says, as after another address.
  const sync = [];
  const choice = (label, options, name) => {
    const select = element("select", { "aria-label": label, change: (event) => { state[name] = event.target.value; changed(); } }, element("option", { value: "" }, "all"), options.map(([value, word]) => element("option", { value }, word)));
    sync.push(() => { select.value = state[name]; });
    return element("label", {}, label, select);
  };

  const chip = ({ key, words, count: found }) => {
    const button = element("button", { type: "button", class: "chip", click: () => { state.pattern = state.pattern === key ? "" : key; changed(); } }, `${words} `, element("b", {}, count(found)));
    sync.push(() => button.setAttribute("aria-pressed", state.pattern === key ? "true" : "false"));
    return button;
  };

  const distinct = (values) => [...new Set(values.filter(Boolean))].map((value) => [value, value]);
  const outcomes = Object.keys(OUTCOMES).filter((name) => rows.some((row) => row.credits.some((credit) => outcomeOf(credit) === name)));

  const filters = document.getElementById("filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  const search = element("input", { type: "search", "aria-label": "search", placeholder: "question, answer, id", input: () => { state.text = search.value; changed(); } });
  sync.push(() => { if (search.value !== state.text) search.value = state.text; });
  const ofRuns = data.runs.map((run, index) => choice(several ? run.name : "outcome", outcomes.map((name) => [name, OUTCOMES[name].word]), `outcome-${index}`));
  filters.append(
    element("label", {}, "search", search),
    choice("type", distinct(rows.map((row) => row.type)), "type"),
    choice("why wrong", distinct(rows.flatMap((row) => row.stages)), "stage"),
    ...(several ? [element("details", {}, element("summary", {}, "outcome of a run"), element("div", { class: "of-runs" }, ofRuns))] : ofRuns),
  );
  document.getElementById("patterns").append(...data.patterns.map(chip));

  document.getElementById("question-box").append(element("table", { class: "questions" }, element("thead", {}, element("tr", {}, headers)), body));
  const follow = () => {
    if (!recall()) return;
    show();
    const opened = document.getElementById(`question-${[...open][0]}`) ?? document.getElementById("questions");
    opened.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  if (location.hash.startsWith("#?")) follow();
  else show();

  // Light and dark ---------------------------------------------------------------------------------------------------

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  theme.hidden = false;
  nameTheme();
})();
