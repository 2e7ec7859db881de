// The explorer: what is recalled changes with every setting. A late answer to an older address is dropped.
import { tell } from "./ui.js";

const form = document.getElementById("explore");
const result = document.getElementById("result");
const usual = new Map([...form.elements].filter((one) => one.name?.startsWith("set.")).map((one) => [one.name, one.value]));
let underWay = null;
let waiting = 0;

/** The address that the form says; settings that nobody changed stay out of it. */
function query() {
  const said = new URLSearchParams();
  const before = new URLSearchParams(location.search);
  for (const [name, value] of new FormData(form)) {
    const setting = name.startsWith("set.");
    if (setting ? value !== usual.get(name) || before.has(name) : value) said.append(name, value);
  }
  return said;
}

async function recall() {
  const said = query();
  underWay?.abort();
  const control = (underWay = new AbortController());
  result.setAttribute("aria-busy", "true");
  try {
    const reply = await fetch(`/explore/result?${said}`, { signal: control.signal });
    const text = await reply.text();
    if (underWay !== control) return;
    if (!reply.ok) throw new Error(reply.statusText);
    result.innerHTML = text; // A template of ours, which escapes every text from the data.
    history.replaceState(null, "", `/explore?${said}`);
    result.setAttribute("aria-busy", "false");
  } catch (error) {
    if (error.name !== "AbortError") tell(`It could not be recalled: ${error.message}`);
  }
}

form.addEventListener("input", (event) => {
  if (event.target.name === "memory") return;
  clearTimeout(waiting);
  waiting = setTimeout(recall, 120);
});
form.elements.memory.addEventListener("change", () => {
  const said = query();
  for (const name of usual.keys()) said.delete(name);
  location.assign(`/explore?${said}`);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  recall();
});
