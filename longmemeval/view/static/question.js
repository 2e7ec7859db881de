// Keys of a question: whatever has data-press is pressed by it; "e" goes from one piece of evidence to the next.
import { key, tell } from "./ui.js";

for (const one of document.querySelectorAll("[data-press]")) key(one.dataset.press, one.dataset.words, () => one.click());

const evidence = [...document.querySelectorAll("tr.evidence")];
let at = -1;
if (document.getElementById("prompt")) {
  key("e", "the next piece of evidence", () => {
    if (!evidence.length) return tell("No evidence is in this prompt");
    at = (at + 1) % evidence.length;
    evidence[at].scrollIntoView({ block: "center" });
    evidence[at].focus();
    tell(`Evidence ${at + 1} of ${evidence.length}`);
  });
}
