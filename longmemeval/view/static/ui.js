// What scripts of pages are made with: Preact with htm and signals, the address, keys, words to the reader.
import { h, options, render } from "./vendored/preact.js";
import htm from "./vendored/htm.js";

export { h, options, render };
export { signal, computed, effect, batch } from "./vendored/signals.js";
export { useEffect } from "./vendored/hooks.js";
export const html = htm.bind(h);

// ---- the address: what is seen is what it says ----

export const asked = () => new URLSearchParams(location.search);

/** Put values into the address; empty ones leave it. `push`: whether "back" returns to what was there. */
export function say(values, push = false) {
  const query = asked();
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  const next = `${location.pathname}${query.size ? `?${query}` : ""}`;
  if (next !== location.pathname + location.search) history[push ? "pushState" : "replaceState"](null, "", next);
}

// ---- data: a late reply to an older question is dropped ----

const underWay = new Map();

/** Fetch JSON or `text`; of several requests with one `name` only the newest is answered, the others give null. */
export async function get(address, name = address, kind = "json") {
  underWay.get(name)?.abort();
  const control = new AbortController();
  underWay.set(name, control);
  try {
    const reply = await fetch(address, { signal: control.signal, headers: { accept: "application/json" } });
    const found = await reply[kind]();
    if (underWay.get(name) !== control) return null;
    if (!reply.ok) throw Object.assign(new Error(found.error?.what ?? reply.statusText), found.error);
    return found;
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error;
  } finally {
    if (underWay.get(name) === control) underWay.delete(name);
  }
}

// ---- words, keys, copying ----

/** Say something in a few words, to eyes and screen readers. */
export function tell(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(place.timer);
  place.timer = setTimeout(() => place.classList.remove("shown"), 2500);
}

const keys = new Map();

/** Bind one key, listed under "?". Keys are not taken from fields, nor with Ctrl, Alt or Meta. */
export function key(name, words, act) {
  keys.set(name, { words, act });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  const field = event.target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog");
  if (field) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  const found = keys.get(event.key);
  if (found) {
    event.preventDefault();
    found.act(event);
  }
});

export async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("Link copied");
  } catch {
    tell(`Copy it from the address bar: ${location.href}`);
  }
}

key("?", "all keys", () => {
  const list = document.getElementById("key-list");
  list.replaceChildren(...[...keys].flatMap(([name, { words }]) => {
    const [shown, meaning] = [document.createElement("dt"), document.createElement("dd")];
    const cap = document.createElement("kbd");
    cap.textContent = name;
    shown.append(cap);
    meaning.textContent = words;
    return [shown, meaning];
  }));
  document.getElementById("keys").showModal();
});
