// The page of a run that goes on: what its tasks do now, and the sections again as the run's records grow. The events are those of live.py.
"use strict";

(() => {
  const element = (id) => document.getElementById(id);
  const events = new EventSource("events");
  const LEFT = [0, 8];  // columns of words
  let busy = false;

  events.addEventListener("now", (event) => {
    const told = JSON.parse(event.data);
    const row = (tag, cells) => {
      const made = document.createElement("tr");
      for (const [place, cell] of cells.entries()) {
        const one = made.appendChild(document.createElement(tag));
        one.textContent = cell;
        if (!LEFT.includes(place)) one.className = "number";
        if (tag === "td" && place > 0) one.dataset.of = told.head[place];
      }
      return made;
    };
    const table = document.createElement("table");
    table.className = "long";
    table.createTHead().append(row("th", told.head));
    table.createTBody().append(...told.rows.map((cells) => row("td", cells)));
    element("tasks-now").replaceChildren(table);
    element("memory-now").textContent = told.memory + " of shared memory.";
  });

  events.addEventListener("page", async () => {
    if (busy) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } finally {
      busy = false;
    }
  });

  events.addEventListener("over", () => {
    events.close();
    location.reload();
  });
  events.addEventListener("error", () => {
    element("lost").hidden = events.readyState === EventSource.OPEN;
  });
  events.addEventListener("open", () => (element("lost").hidden = true));

  function take(fresh) {
    for (const id of ["time", "graph", "tables"]) element(id).replaceWith(fresh.getElementById(id));
    takeLogs(fresh);
    const chart = element("gantt"), whole = chart?.dataset.whole === "yes";
    if (chart && !whole) return;  // somebody looks at a part of it
    element("data").replaceWith(fresh.getElementById("data"));
    if (!chart) element("timeline").replaceWith(fresh.getElementById("timeline"));
    window.showTimeline();
  }

  // Logs that are open stay so, and follow their end if that is in sight.
  function takeLogs(fresh) {
    const before = new Map([...element("logs").querySelectorAll("details")].map((one) => [one.dataset.log, one]));
    const logs = fresh.getElementById("logs");
    for (const one of logs.querySelectorAll("details")) one.open = before.get(one.dataset.log)?.open ?? one.open;
    const places = new Map([...before].map(([name, one]) => [name, placeOf(one.querySelector("pre"))]));
    element("logs").replaceWith(logs);
    for (const one of logs.querySelectorAll("details")) {
      const text = one.querySelector("pre"), place = places.get(one.dataset.log);
      if (text && place !== undefined) text.scrollTop = place < 0 ? text.scrollHeight : place;
    }
  }

  const placeOf = (text) => (!text || text.scrollTop + text.clientHeight >= text.scrollHeight - 4 ? -1 : text.scrollTop);
})();
