// What every page does: copy the link, go to the search field, show the keys.
import { copyLink, key } from "./ui.js";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", copyLink);
}
key("c", "copy link", copyLink);
const field = document.querySelector("[data-key='/']");
if (field) key("/", "search", () => { field.focus(); field.select(); });
