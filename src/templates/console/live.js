const page = document.getElementById("live");
const rows = document.querySelector("table.rows tbody");
const say = document.getElementById("live-state");
const pause = document.getElementById("live-pause");
const titles = [...document.querySelectorAll("table.rows thead th")];
let waiting = [], missed = false, paused = false, stream, last = page.dataset.after;
const row = ({cells, urgent}) => {
  const line = document.createElement("tr");
  if (urgent) line.className = "urgent";
  cells.forEach((cell, at) => {
    const place = document.createElement("td");
    place.className = titles[at].className;
    place.dataset.label = titles[at].textContent;
    const text = cell.to ? document.createElement("a") : place;
    if (cell.to) { text.href = cell.to; place.append(text); }
    text.textContent = cell.text;
    line.append(place);
  });
  return line;
};
const tell = () => {
  const more = missed ? " More came at once than can be read: load the page again to see all." : "";
  say.textContent = (paused ? `Paused, ${waiting.length} newer.` : "New records are added as they come.") + more;
  pause.textContent = paused ? "Go on" : "Pause";
};
const add = () => {
  if (paused) return tell();
  // The page of an empty list has no table to add to.
  if (!rows && waiting.length) return location.reload();
  waiting.splice(0).forEach((found) => rows.prepend(row(found)));
  while (rows && rows.rows.length > 500) rows.deleteRow(-1);
  tell();
};
const open = () => {
  stream = new EventSource(`${page.dataset.stream}&after=${last}`);
  stream.onmessage = (event) => {
    last = event.lastEventId;
    waiting.push(JSON.parse(event.data));
    if (waiting.length > 500) { waiting.shift(); missed = true; }
    add();
  };
  stream.addEventListener("more", () => { missed = true; tell(); });
  stream.onerror = () => { if (stream.readyState === EventSource.CLOSED) say.textContent = "No new records are added: load the page again."; };
};
const hold = (is) => { paused = is; add(); };
pause.onclick = () => hold(!paused);
if (rows) {
  addEventListener("scroll", () => { if (scrollY > rows.parentElement.offsetTop && !paused) hold(true); });
  rows.addEventListener("focusin", () => hold(true));
  document.addEventListener("selectionchange", () => { if (String(getSelection()) && rows.contains(getSelection().anchorNode)) hold(true); });
}
document.addEventListener("visibilitychange", () => { if (document.hidden) stream.close(); else open(); });
open(); tell();
