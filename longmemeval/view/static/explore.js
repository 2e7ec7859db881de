// The explorer: what is recalled changes with every setting. A late answer to an older address is dropped.
import { get, tell } from "./ui.js";

const form = document.getElementById("explore");
const result = document.getElementById("result");
const usual = new Map([...form.elements].filter((one) => one.name?.startsWith("set.")).map((one) => [one.name, one.value]));
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
  result.setAttribute("aria-busy", "true");
  try {
    const text = await get(`/explore/result?${said}`, "recall", "text");
    if (text === null) return;
    result.innerHTML = text; // A template of ours, which escapes every text from the data.
    history.replaceState(null, "", `/explore?${said}`);
    result.setAttribute("aria-busy", "false");
  } catch (error) { tell(`Retrieval failed: ${error.message}`); }
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
