// The comparison: a choice is shown at once, and the pictures come when the page is there.
import { key, tell } from "./ui.js";

for (const form of document.querySelectorAll("[data-auto]")) {
  form.querySelector("button:not([type])").hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}
const baseline = document.querySelector("select[name=baseline]");
key("b", "next run as the baseline", () => {
  baseline.selectedIndex = (baseline.selectedIndex + 1) % baseline.options.length;
  baseline.form.requestSubmit();
});

const link = document.getElementById("pictures-link");
try {
  const reply = await fetch(link.href);
  const found = new DOMParser().parseFromString(await reply.text(), "text/html");
  const pictures = found.querySelector("#pictures");
  if (reply.ok && pictures?.children.length) {
    document.getElementById("pictures").replaceChildren(...pictures.children);
    link.parentElement.remove();
  }
} catch {
  tell("Charts could not be loaded; open the link instead.");
}
