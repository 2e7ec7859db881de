// The matrix: all questions are here once, packed; what is typed or pressed only chooses among them.
import { asked, batch, computed, copyLink, effect, get, h, html, key, options, render, say, signal, tell, useEffect } from "./ui.js";

const place = document.getElementById("matrix");
const ROW = 34, SPARE = 6;
const FILTERS = [
  ["all", "0", "all"], ["differ", "d", "differ"], ["lost", "l", "worse than baseline"], ["won", "w", "better than baseline"],
  ["unchanged", "u", "unchanged"], ["wrong", "a", "all wrong"], ["disagree", "g", "judges disagree"],
  ["found", "f", "evidence found, answered wrong"],
];
const SORTS = [["data", "order of the data"], ["regression", "regression"], ["disagreement", "disagreement"], ["tokens", "tokens"]];
const PLACES = [["answers", "and answers"], ["recalled", "and recalled text"], ["pattern", "by a pattern (regex)"]];
const CELLS = { 1: ["right", "✓", "right"], 0: ["wrong", "✗", "wrong"], p: ["part", "◐", "in part"], "-": ["none", "–", "not evaluated"] };

let all;
try {
  all = await get(place.dataset.source);
} catch (error) {
  tell(error.message);
  throw error;
}
const { runs, ids, texts, types, stage_names: stages } = all;
const N = ids.length;
const labels = runs.map((run) => run.labels);
const worth = { 1: 1, p: 0.5, 0: 0, "-": 0 };
const lower = texts.map((text) => text.toLowerCase());
const folds = all.repeats.length ? signal(true) : signal(false);

// ---- the address ----
const NAMES = ["show", "of", "type", "stage", "only", "sort", "q", "in"];
const state = Object.fromEntries(NAMES.map((name) => [name, signal(asked().get(name) ?? "")]));
const first = runs.length > 1 ? "differ" : "all";
const shownFilter = computed(() => state.show.value || (state.q.value || state.only.value || state.stage.value ? "all" : first));
const current = signal(0);
const inAnswers = signal(null);
effect(() => say(Object.fromEntries(NAMES.map((name) => [name, state[name].value]))));
addEventListener("popstate", () => batch(() => NAMES.forEach((name) => { state[name].value = asked().get(name) ?? ""; })));

let timer;
effect(() => {
  const text = state.q.value;
  const where = state.in.value;
  const wanted = text && where;
  clearTimeout(timer);
  inAnswers.value = null;
  if (wanted) timer = setTimeout(async () => {
    try {
      const reply = await get(`${place.dataset.source.replace("/data/questions", "/data/search")}&in=${where}&q=${encodeURIComponent(text)}`, "search");
      if (reply && reply.q === state.q.value && reply.in === state.in.value) inAnswers.value = reply.found;
    } catch (error) { tell(error.message); }
  }, 150);
});

// ---- which questions ----
const against = (row, run) => worth[labels[run][row]] - worth[labels[0][row]];
const among = all.among;
const others = runs.map((_, place) => place).slice(1), memories = among.filter((place) => place > 0);
const chosenRuns = computed(() => {
  const at = runs.findIndex((run) => run.id === state.of.value);
  return at > 0 ? [at] : memories;
});
const tests = {
  all: () => true,
  differ: (row) => among.some((run) => against(row, run) !== 0),
  lost: (row) => chosenRuns.value.some((run) => against(row, run) < 0),
  won: (row) => chosenRuns.value.some((run) => against(row, run) > 0),
  unchanged: (row) => chosenRuns.value.every((run) => against(row, run) === 0),
  wrong: (row) => among.every((run) => worth[labels[run][row]] < 1),
  disagree: (row) => among.some((run) => runs[run].disputed[row] === "1"),
  found: (row) => among.some((run) => all.found.includes(runs[run].stages[row])),
};
const counts = computed(() => {
  chosenRuns.value;
  return Object.fromEntries(FILTERS.map(([name]) => {
    let number = 0;
    for (let row = 0; row < N; row++) number += tests[name](row);
    return [name, number];
  }));
});
const regression = computed(() => Array.from({ length: N }, (_, row) => chosenRuns.value.reduce((sum, run) => sum + against(row, run), 0)));
const split = Array.from({ length: N }, (_, row) => {
  const right = among.reduce((sum, run) => sum + worth[labels[run][row]], 0) / among.length;
  return right * (1 - right);
});
const chosen = computed(() => {
  const test = tests[shownFilter.value] ?? tests.all;
  const text = state.q.value.toLowerCase();
  const pattern = state.in.value === "pattern";
  const type = all.type_names.indexOf(state.type.value);
  const only = runs.findIndex((run) => run.id === state.only.value);
  const stage = stages.includes(state.stage.value) && String.fromCharCode(97 + stages.indexOf(state.stage.value));
  const rows = [];
  for (let row = 0; row < N; row++) {
    if (!test(row) || (type >= 0 && types[row] !== type)) continue;
    if (text && inAnswers.value?.[row] !== "1" && (pattern || (!lower[row].includes(text) && !ids[row].includes(state.q.value)))) continue;
    if (only >= 0 && ![...among, only].every((run) => (labels[run][row] === "1") === (run === only))) continue;
    if (stage && !chosenRuns.value.concat(0).some((run) => runs[run].stages[row] === stage)) continue;
    rows.push(row);
  }
  const by = { regression: regression.value, disagreement: split.map((value) => -value), tokens: all.tokens.map((value) => -value) }[state.sort.value];
  return by ? rows.sort((a, b) => by[a] - by[b] || a - b) : rows;
});
effect(() => { chosen.value; current.value = 0; });
const groups = computed(() => {
  const found = new Map();
  for (const row of chosen.value) {
    const run = chosenRuns.value.find((one) => runs[one].stages[row] !== " ") ?? 0;
    const at = runs[run].stages[row];
    if (at !== " ") found.set(at, (found.get(at) ?? 0) + 1);
  }
  return [...found].sort((a, b) => b[1] - a[1]).map(([letter, number]) => [stages[letter.charCodeAt(0) - 97], number]);
});

// ---- columns: repeats of one configuration are one ----
const columns = computed(() => {
  const folded = folds.value ? all.repeats : [];
  const hidden = new Set(folded.flatMap((pool) => pool.slice(1)));
  return runs.map((run, at) => ({ run, at, pool: folded.find((pool) => pool[0] === at) })).filter(({ at }) => !hidden.has(at));
});
const link = (row) => {
  const query = new URLSearchParams([...asked()].filter(([name]) => !NAMES.includes(name)));
  for (const name of NAMES) if (state[name].value) query.set(name === "q" ? "find" : name, state[name].value);
  query.set("show", shownFilter.value);
  query.set("q", ids[row]);
  return `/question?${query}`;
};

function Mark({ run }) {
  return html`<svg class="mark run-${run.colour}${run.hatched ? " hatched" : ""}" viewBox="-6.5 -6.5 13 13" aria-hidden="true"><path d=${run.path} /></svg>`;
}
// Plain functions, not components: a thousand cells are drawn in one go.
function cell(row, { at, pool }) {
  if (pool) {
    const right = pool.filter((run) => labels[run][row] === "1").length;
    const flips = pool.slice(1).filter((run, place) => labels[run][row] !== labels[pool[place]][row]).length;
    const kind = right === pool.length ? "right" : right ? "part" : "wrong";
    return html`<td title="right in ${right} of ${pool.length} repeats, flips ${flips} of ${pool.length - 1} times"><span class=${`cell ${kind}`}>${right}/${pool.length}</span></td>`;
  }
  const [kind, sign, words] = CELLS[labels[at][row]];
  return h("td", { title: words }, h("span", { class: `cell ${kind}` }, sign));
}
function line(row, at, slot) {
  const run = chosenRuns.value.find((one) => runs[one].stages[row] !== " ") ?? 0;
  const letter = runs[run].stages[row];
  return html`<tr key=${slot} aria-current=${at === current.value ? "true" : null} aria-rowindex=${at + 2} data-at=${at}>
    <th scope="row"><a class="question-link" href=${link(row)} title=${texts[row]}>${texts[row]}</a></th>
    ${columns.value.map((column) => cell(row, column))}
    <td class="text why-wrong">${letter === " " ? "" : `${stages[letter.charCodeAt(0) - 97]}${others.length > 1 ? `, ${runs[run].name}` : ""}`}</td>
    <td class="text kind">${all.type_names[types[row]]}</td></tr>`;
}

const top = signal(0), height = signal(600), printed = signal(false);
let box;
const onScroll = () => { top.value = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE); };
function Grid() {
  const rows = chosen.value, many = printed.value ? rows.length : Math.ceil(height.value / ROW) + 2 * SPARE;
  const from = Math.min(top.value, Math.max(0, rows.length - many)), to = Math.min(rows.length, from + many);
  const wide = columns.value.length + 3;
  useEffect(() => { height.value = box.clientHeight; });
  return html`<div class="card grid scroll" role="region" aria-label="Questions" tabindex="0" onScroll=${onScroll} ref=${(one) => { box = one ?? box; }}>
    <table class="list" aria-rowcount=${rows.length + 1}>
    <thead><tr><th scope="col" class="text">question</th>
    ${columns.value.map(({ run, at, pool }) => html`<th scope="col" class=${at === 0 ? "pinned" : ""} title="${run.id}${at === 0 ? " (baseline)" : ""}"><span class="upright">${run.name}${pool ? ` ×${pool.length}` : ""}${at === 0 ? html`<span class="hidden-text"> (baseline)</span>` : ""}</span><${Mark} run=${run} /></th>`)}
    <th scope="col" class="text why-wrong">why wrong</th><th scope="col" class="text kind">type</th></tr></thead>
    <tbody>
    ${from > 0 && html`<tr aria-hidden="true"><td colspan=${wide} style=${{ height: `${from * ROW}px`, padding: 0 }}></td></tr>`}
    ${rows.slice(from, to).map((row, index) => line(row, from + index, index))}
    ${to < rows.length && html`<tr aria-hidden="true"><td colspan=${wide} style=${{ height: `${(rows.length - to) * ROW}px`, padding: 0 }}></td></tr>`}
    ${rows.length === 0 && html`<tr><td class="text" colspan=${wide}>No questions match.</td></tr>`}
    </tbody></table></div>`;
}
// A phone shows the questions first: what chooses among them is folded there.
const phone = matchMedia("screen and (max-width: 760px)");
const unfolded = !phone.matches;
const unfold = (open) => { place.querySelector(".tools").open = open; };
phone.addEventListener("change", () => unfold(!phone.matches));
const choose = (name, value) => { state[name].value = state[name].value === value ? "" : value; };
function Tools() {
  return html`<details class="tools" open=${unfolded}>
    <summary>Filter, search, sort: ${FILTERS.find(([name]) => name === shownFilter.value)?.[2] ?? "all"}</summary>
    <div class="bar" role="group" aria-label="Filters">
    ${FILTERS.filter(([name]) => others.length || !["differ", "lost", "won", "unchanged"].includes(name)).map(([name, letter, words]) =>
      html`<button type="button" aria-pressed=${shownFilter.value === name} aria-keyshortcuts=${letter} onClick=${() => { state.show.value = name; }}>${words} ${counts.value[name]}</button>`)}
    </div><div class="bar">
    <label class="field">search <input id="search" type="search" value=${state.q.value} onInput=${(event) => { state.q.value = event.target.value; }} /></label>
    <${Pick} name="in" title="in" values=${PLACES} none="questions" />
    <${Pick} name="type" title="type" values=${all.type_names.map((one) => [one, one])} none="all" />
    ${others.length > 1 && html`<${Pick} name="of" title="run" values=${others.map((at) => [runs[at].id, runs[at].name])} none="any" />`}
    ${runs.length > 1 && html`<${Pick} name="only" title="only right in" values=${runs.map((run) => [run.id, run.name])} none="–" />`}
    <${Pick} name="sort" title="sort" values=${SORTS.slice(1)} none=${SORTS[0][1]} />
    ${all.repeats.length > 0 && html`<button type="button" aria-pressed=${folds.value} onClick=${() => { folds.value = !folds.value; }}>fold repeats</button>`}
    <button type="button" onClick=${copyLink}>Copy link</button></div></details>
    <p class="quiet" role="status"><strong>${chosen.value.length}</strong> of ${N}${groups.value.length > 0 && html`; wrong: ${groups.value.map(([name, number], at) =>
      html`${at ? ", " : ""}<a href="#" aria-current=${state.stage.value === name ? "true" : null} onClick=${(event) => { event.preventDefault(); choose("stage", name); }}>${name} ${number}</a>`)}`}</p>`;
}
function Pick({ name, title, values, none }) {
  return html`<label class="field">${title} <select value=${state[name].value} onChange=${(event) => { state[name].value = event.target.value; }}>
    <option value="">${none}</option>${values.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>`;
}

place.replaceChildren();
render(html`<${Tools} /><${Grid} />`, place);

// On paper are all rows that are chosen: they must be there before the browser draws them.
for (const [name, all] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(name, () => {
    options.debounceRendering = (draw) => draw();
    printed.value = all;
    options.debounceRendering = undefined;
  });
}

// ---- keys ----
function move(to) {
  current.value = Math.max(0, Math.min(chosen.value.length - 1, to));
  const y = current.value * ROW;
  if (y < box.scrollTop + ROW) box.scrollTop = Math.max(0, y - ROW);
  else if (y > box.scrollTop + box.clientHeight - 3 * ROW) box.scrollTop = y - box.clientHeight + 3 * ROW;
}
for (const [name, letter, words] of FILTERS) key(letter, words, () => { state.show.value = name; });
key("j", "next question", () => move(current.value + 1));
key("k", "question before", () => move(current.value - 1));
key("n", "next that differs", () => {
  const next = chosen.value.findIndex((row, at) => at > current.value && tests.differ(row));
  next < 0 ? tell("No further question differs") : move(next);
});
key("Enter", "open the question", () => { if (chosen.value.length) location.href = link(chosen.value[current.value]); });
key("o", "open the question", () => { if (chosen.value.length) location.href = link(chosen.value[current.value]); });
key("b", "next run as the baseline", () => {
  if (!others.length) return;
  const query = asked();
  const at = runs.map((run) => run.id);
  query.delete("baseline");
  query.delete("run");
  [...at.slice(1), at[0]].forEach((id) => query.append("run", id));
  location.search = query;
});
key("/", "search", () => {
  unfold(true);
  document.getElementById("search").focus();
});
document.documentElement.dataset.ready = "matrix";
