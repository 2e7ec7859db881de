// Work under way, followed: cells change where they are, rows stay in their order.

const body = document.querySelector("#work tbody");
const head = document.getElementById("head");
const at = document.getElementById("at");
const rows = new Map([...body.rows].map((row) => [row.cells[0].textContent, row]));
const source = new EventSource("/live/events");
source.onmessage = ({ data }) => {
  const now = JSON.parse(data);
  for (const values of now.rows) {
    let row = rows.get(values[0]);
    if (!row) {
      row = body.insertRow();
      rows.set(values[0], row);
      values.forEach((_, place) => row.append(document.createElement(place ? "td" : "th")));
      row.cells[0].scope = "row";
    }
    values.forEach((value, place) => { if (row.cells[place].textContent !== value) row.cells[place].textContent = value; });
  }
  const open = now.rows.filter(([name]) => !now.ended.includes(name)).length;
  head.textContent = open ? `${open} running` : "Nothing is running";
  at.textContent = "live";
  document.documentElement.dataset.ready = "live";
};
source.onerror = () => { at.textContent = "the server does not answer; figures are the last ones known"; };
addEventListener("pagehide", () => source.close());
