// The timeline of a run: a chart to zoom into, rates and queues below it, and a search for steps. The data are those of value.py. It is drawn anew at each zoom: an SVG of a hundred thousand steps would be too slow.
"use strict";

let timelineGone;

window.showTimeline = async () => {
  timelineGone?.abort();
  timelineGone = new AbortController();
  const element = (id) => document.getElementById(id);
  const packed = element("data").textContent.trim();
  const canvas = element("gantt"), mine = { signal: timelineGone.signal };
  if (!packed || !canvas) return;
  const data = await unpack(packed);
  if (mine.signal.aborted) return;  // drawn anew meanwhile

  const TOP = 4, AXIS = 22, LOW = 140;
  const ARROW_EVERY = 9, MOST_LINES = 12, RATE_OF = 5;
  const LINES = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#7b5ea7", "#56b4e9", "#a0522d", "#cc79a7", "#6b7a00", "#888", "#00a3a3", "#b00020"];
  const rows = [], firstRow = [];
  for (const [task, one] of data.tasks.entries()) {
    firstRow.push(rows.length);
    for (const row of one.rows) rows.push(unrolled(task, one, row));
  }
  const ROW = rows.length > 24 ? 18 : 26;
  const rowOf = new Map(rows.map((row, place) => [row.task + ":" + row.rank, place]));
  const steps = unrolledSteps(data.steps);
  const queues = queuesOf(), numberOf = new Map();
  for (let step = 0; step < steps.count; ++step) {
    const key = steps.task[step] + ":" + steps.port[step];
    if (!numberOf.has(key)) numberOf.set(key, numberOf.size);
  }
  const view = { from: 0, to: Math.max(1, data.end) };
  let chosen = -1, matches = [], asked = "";

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function unrolled(task, one, row) {
    const ends = new Float64Array(row.lengths.length);
    let now = row.at;
    row.lengths.forEach((length, place) => { ends[place] = now += length; });
    const name = one.ranks > 1 ? one.name + ":" + row.rank : one.name;
    return { task, rank: row.rank, name, at: row.at, ends, kinds: row.kinds, ports: row.ports };
  }

  function unrolledSteps(columns) {
    const time = new Float64Array(columns.time.length), first = new Uint32Array(columns.time.length + 1);
    let now = 0;
    columns.time.forEach((later, place) => { time[place] = now += later; });
    columns.opens.forEach((count, place) => { first[place + 1] = first[place] + count; });
    return { ...columns, time, first, count: time.length };
  }

  // For each out-port and reading task: when a step came or was first opened there, and how many wait from then on. A step that is never opened waits
  // to the end, where its reader gets all.
  function queuesOf() {
    const changes = new Map();
    const note = (step, reader, by, when) => {
      const key = steps.task[step] + ":" + steps.port[step] + ":" + reader;
      if (!changes.has(key)) changes.set(key, []);
      changes.get(key).push([when, by]);
    };
    const readers = new Map();
    for (const [task, port, reader] of data.waits) {
      const key = task + ":" + port;
      readers.set(key, [...(readers.get(key) ?? []), reader]);
    }
    for (let step = 0; step < steps.count; ++step) {
      const earliest = new Map(), dropped = steps.drops[step] || [];
      for (let k = steps.first[step]; k < steps.first[step + 1]; ++k) {
        const reader = steps.openTask[k], when = steps.time[step] + steps.openAfter[k];
        if (!(earliest.get(reader) <= when)) earliest.set(reader, when);
      }
      for (const reader of readers.get(steps.task[step] + ":" + steps.port[step]) ?? [])
        if (!earliest.has(reader) && !dropped.includes(reader)) earliest.set(reader, Infinity);
      for (const [reader, when] of earliest) {
        note(step, reader, 1, steps.time[step]);
        if (when < Infinity) note(step, reader, -1, Math.max(when, steps.time[step]));
      }
    }
    return [...changes].map(([key, found]) => {
      const [task, port, reader] = key.split(":").map(Number);
      found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
      let depth = 0;
      return {
        name: data.tasks[task].name + " → " + data.tasks[reader].name + ", " + data.patterns[port],
        times: Float64Array.from(found, (one) => one[0]), depths: Float64Array.from(found, (one) => (depth += one[1])),
      };
    });
  }

  // The first place of a sorted array whose value is above.
  function above(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] > value) high = middle; else low = middle + 1;
    }
    return low;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const gutter = () => Math.min(190, Math.max(70, canvas.clientWidth * 0.16));
  const seconds = (ticks) => ticks * data.tick;

  function durationText(span) {
    if (span >= 120) return Math.floor(span / 60) + " min " + (span % 60).toFixed(0) + " s";
    if (span >= 1 || !span) return Number(span.toPrecision(4)) + " s";
    return span >= 1e-3 ? Number((span * 1e3).toPrecision(4)) + " ms" : Number((span * 1e6).toPrecision(4)) + " µs";
  }

  function bytesText(count) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (count < 1000) return Number(count.toPrecision(3)) + " " + unit;
      count /= 1000;
    }
    return Number(count.toPrecision(3)) + " TB";
  }

  // A canvas of this height, ready to be drawn on in units of the page.
  function ready(target, height) {
    const scale = window.devicePixelRatio || 1, width = target.clientWidth || 800;
    target.width = Math.round(width * scale);
    target.height = Math.round(height * scale);
    target.style.height = height + "px";
    const pen = target.getContext("2d");
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    const left = gutter();
    return { pen, width, height, left, x: (tick) => left + ((tick - view.from) / (view.to - view.from)) * (width - left) };
  }

  function axis(sheet, bottom) {
    const { pen, width, left, x } = sheet;
    const span = seconds(view.to - view.from), wanted = span / Math.max(2, (width - left) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const each = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= wanted);
    pen.textAlign = "center";
    for (let time = Math.ceil(seconds(view.from) / each) * each; time <= seconds(view.to); time += each) {
      const place = x(time / data.tick);
      pen.fillStyle = colour("line");
      pen.fillRect(place, TOP, 1, bottom - TOP);
      pen.fillStyle = colour("soft");
      if (place > left + 12 && place < width - 22) pen.fillText(Number(time.toPrecision(12)) + " s", place, bottom + 15);
    }
    pen.textAlign = "left";
  }

  function drawRow(sheet, row, top, colours) {
    const { pen, left, width, x } = sheet;
    const pixels = Math.ceil(width - left), shares = new Map();
    const share = (pixel, kind, part) => {
      if (!shares.has(pixel)) shares.set(pixel, new Float32Array(colours.length));
      shares.get(pixel)[kind] += part;
    };
    for (let place = above(row.ends, view.from); place < row.ends.length; ++place) {
      const begin = place ? row.ends[place - 1] : row.at;
      if (begin >= view.to) break;
      const from = Math.max(left, x(begin)), to = Math.min(width, x(row.ends[place])), kind = Number(row.kinds[place]);
      if (to - from >= 1) {
        pen.fillStyle = colours[kind];
        pen.fillRect(from, top, to - from, ROW - 5);
      } else {
        share(Math.min(pixels - 1, Math.floor(from - left)), kind, Math.max(to - from, 1e-3));
      }
    }
    // What is narrower than a pixel shares it, from top to bottom.
    for (const [pixel, parts] of shares) {
      const whole = Math.max(parts.reduce((sum, part) => sum + part, 0), 1e-9);
      let at = top;
      parts.forEach((part, kind) => {
        if (!part) return;
        const high = (part / whole) * (ROW - 5);
        pen.fillStyle = colours[kind];
        pen.fillRect(left + pixel, at, 1, high);
        at += high;
      });
    }
  }

  const middle = (place) => TOP + place * ROW + (ROW - 5) / 2;
  const rowOfStep = (step) => rowOf.get(steps.task[step] + ":" + steps.rank[step]) ?? firstRow[steps.task[step]];

  function arrows(sheet) {
    const { pen, left, width, x } = sheet;
    const from = above(steps.time, view.from - 1), to = above(steps.time, view.to);
    const clip = new Path2D();
    clip.rect(left, 0, width - left, sheet.height);
    pen.save();
    pen.clip(clip);
    const many = (steps.first[to] - steps.first[from]) * ARROW_EVERY > width - left;
    for (let step = many ? to : from; step < to; ++step) arrow(step, colour("ink"), 0.8);
    if (chosen >= 0) arrow(chosen, colour("back"), 2.2);
    pen.restore();

    function arrow(step, ink, thick) {
      const row = rowOfStep(step), begin = x(steps.time[step]);
      pen.strokeStyle = pen.fillStyle = ink;
      pen.lineWidth = thick;
      for (let k = steps.first[step]; k < steps.first[step + 1]; ++k) {
        const reader = rowOf.get(steps.openTask[k] + ":" + steps.openRank[k]);
        if (reader === undefined) continue;
        const end = x(steps.time[step] + steps.openAfter[k]), down = reader > row ? 1 : -1, half = (ROW - 5) / 2;
        pen.beginPath();
        pen.moveTo(begin, middle(row) + down * half);
        pen.lineTo(end, middle(reader) - down * half);
        pen.stroke();
        pen.beginPath();
        pen.moveTo(end, middle(reader) - down * half);
        pen.lineTo(end - 3, middle(reader) - down * (half + 5));
        pen.lineTo(end + 3, middle(reader) - down * (half + 5));
        pen.fill();
      }
      pen.beginPath();
      pen.arc(begin, middle(row), thick + 1.6, 0, 7);
      pen.fill();
    }
  }

  function drawGantt() {
    const bottom = TOP + rows.length * ROW, sheet = ready(canvas, bottom + AXIS), { pen, left } = sheet;
    const colours = data.activities.map((_, kind) => colour("a" + kind));
    axis(sheet, bottom);
    rows.forEach((row, place) => {
      drawRow(sheet, row, TOP + place * ROW, colours);
      pen.fillStyle = colour("ink");
      pen.fillText(fitted(pen, row.name, left - 8), 2, middle(place) + 4);
    });
    arrows(sheet);
  }

  function fitted(pen, text, width) {
    if (pen.measureText(text).width <= width) return text;
    let length = text.length;
    while (length > 1 && pen.measureText(text.slice(0, length) + "…").width > width) --length;
    return text.slice(0, length) + "…";
  }

  // Lines over the time in sight: for each, its name and its values by pixel.
  function drawLines(target, keys, found, shown) {
    const sheet = ready(target, LOW), { pen, left, width, x } = sheet, bottom = LOW - AXIS;
    const most = Math.max(0, ...found.map((line) => line.values.reduce((a, b) => Math.max(a, b), 0)));
    target.dataset.most = most;
    axis(sheet, bottom);
    pen.fillStyle = colour("soft");
    if (most > 0) pen.fillText(shown(most), 2, TOP + 10);
    pen.fillText("0", 2, bottom);
    keys.replaceChildren();
    for (const line of found) {
      const ink = LINES[line.number % LINES.length];
      pen.strokeStyle = ink;
      pen.lineWidth = 1.4;
      pen.beginPath();
      line.values.forEach((value, place) => {
        const high = bottom - (most > 0 ? value / most : 0) * (bottom - TOP - 2), at = left + place * line.each;
        pen.lineTo(at, high);
        pen.lineTo(Math.min(width, at + line.each), high);
      });
      pen.stroke();
      const mark = document.createElement("i");
      mark.style.background = ink;
      keys.append(mark, line.name);
    }
    if (found.more) keys.append(" and " + found.more + " more");
  }

  // The steps of each out-port: their times, and how many bytes there were up to each.
  const ports = new Map();
  for (let step = 0; step < steps.count; ++step) {
    const key = steps.task[step] + ":" + steps.port[step];
    if (!ports.has(key)) ports.set(key, { number: numberOf.get(key), name: data.tasks[steps.task[step]].name + ", " + data.patterns[steps.port[step]], times: [], bytes: [] });
    const port = ports.get(key);
    port.times.push(steps.time[step]);
    port.bytes.push((port.bytes.at(-1) ?? 0) + Math.max(0, steps.bytes[step]));
  }

  // A rate is that of some steps around a time, so it does not depend on how much time is in sight.
  function rateAt(port, from, to, asBytes) {
    const { times, bytes } = port, last = times.length - 1;
    if (last < 1 || to <= times[0] || from >= times[last]) return 0;
    let first = Math.max(0, above(times, from) - 1), end = Math.min(last, above(times, to));
    while (end - first < RATE_OF && (first > 0 || end < last)) {
      first = Math.max(0, first - 1);
      if (end - first < RATE_OF) end = Math.min(last, end + 1);
    }
    const count = asBytes ? bytes[end] - bytes[first] : end - first, lasted = seconds(times[end] - times[first]);
    return lasted > 0 ? count / lasted : 0;
  }

  function drawRates() {
    const asBytes = element("as-bytes").checked, width = canvas.clientWidth - gutter(), each = 4;
    const bins = Math.max(1, Math.ceil(width / each)), bin = (view.to - view.from) / bins;
    const lines = [...ports.values()].map((port) => ({
      number: port.number, name: port.name, each,
      values: Float64Array.from({ length: bins }, (_, place) => rateAt(port, view.from + place * bin, view.from + (place + 1) * bin, asBytes)),
    }));
    drawLines(element("rates"), element("rates-keys"), most(lines), asBytes ? (rate) => bytesText(rate) + "/s" : (rate) => Number(rate.toPrecision(3)) + "/s");
  }

  function drawQueues() {
    const width = canvas.clientWidth - gutter(), each = 2, bins = Math.max(1, Math.ceil(width / each));
    const found = queues.map((queue, number) => {
      const values = new Float64Array(bins);
      let place = above(queue.times, view.from), depth = place ? queue.depths[place - 1] : 0;
      for (let bin = 0; bin < bins; ++bin) {
        const end = view.from + ((bin + 1) / bins) * (view.to - view.from);
        values[bin] = depth;
        for (; place < queue.times.length && queue.times[place] <= end; ++place) {
          depth = queue.depths[place];
          values[bin] = Math.max(values[bin], depth);
        }
      }
      return { number, name: queue.name, each, values };
    });
    drawLines(element("queues"), element("queues-keys"), most(found), (depth) => String(Math.round(depth)));
  }

  // Those with the highest values, if there are too many to tell apart.
  function most(lines) {
    const inOrder = (some) => some.sort((a, b) => a.number - b.number);
    if (lines.length <= MOST_LINES) return inOrder(lines);
    const sum = (line) => line.values.reduce((a, b) => a + b, 0);
    const kept = inOrder(lines.sort((a, b) => sum(b) - sum(a)).slice(0, MOST_LINES));
    kept.more = lines.length - MOST_LINES;
    return kept;
  }

  let due = 0;
  function draw() {
    if (!due) due = requestAnimationFrame(() => { due = 0; drawAll(); });
  }
  function drawAll() {
    if (mine.signal.aborted) return;
    drawGantt();
    drawRates();
    drawQueues();
    element("range").textContent = durationText(seconds(view.from)) + " to " + durationText(seconds(view.to)) + ".";
    canvas.dataset.from = seconds(view.from);
    canvas.dataset.to = seconds(view.to);
    canvas.dataset.whole = view.from <= 0 && view.to >= data.end ? "yes" : "no";
  }

  function show(from, to) {
    const least = Math.max(1, 2e-6 / data.tick), span = Math.min(Math.max(to - from, least), Math.max(1, data.end));
    view.from = Math.min(Math.max(0, from), Math.max(0, data.end - span));
    view.to = view.from + span;
    draw();
  }
  function zoom(by, at = (view.from + view.to) / 2) {
    show(at - (at - view.from) * by, at + (view.to - at) * by);
  }
  function tickAt(clientX) {
    const box = canvas.getBoundingClientRect(), left = gutter();
    return view.from + ((clientX - box.left - left) / (box.width - left)) * (view.to - view.from);
  }

  // Steps whose name holds the words, or of whose number they are.
  function search(words) {
    if (words === asked) return;
    asked = words;
    matches = [];
    const number = /^\d+$/.test(words) ? Number(words) : -1;
    for (let step = 0; words && step < steps.count; ++step)
      if (steps.name[step] === words) matches.unshift(step);
      else if (steps.name[step].includes(words) || steps.number[step] === number) matches.push(step);
  }
  function find(by) {
    search(element("find").value.trim());
    if (!matches.length) {
      chosen = -1;
      element("found").textContent = asked ? "no step is called so" : "";
      return draw();
    }
    const now = matches.indexOf(chosen);
    const place = now < 0 ? 0 : (now + by + matches.length) % matches.length;
    chosen = matches[place];
    const ends = [];
    for (let k = steps.first[chosen]; k < steps.first[chosen + 1]; ++k) ends.push(steps.time[chosen] + steps.openAfter[k]);
    const end = Math.max(steps.time[chosen], ...ends), span = Math.max((end - steps.time[chosen]) * 3, (data.end / Math.max(1, steps.count)) * 12, 20);
    const centre = (steps.time[chosen] + end) / 2;
    element("found").textContent = place + 1 + " of " + matches.length + ": " + stepTold(chosen);
    show(centre - span / 2, centre + span / 2);
    canvas.closest(".plot").scrollTop = Math.max(0, middle(rowOfStep(chosen)) - 120);
  }
  function stepTold(step) {
    const size = steps.bytes[step] >= 0 ? ", " + bytesText(steps.bytes[step]) : "";
    return steps.name[step] + ", step " + steps.number[step] + " of " + data.tasks[steps.task[step]].name + ", at " + durationText(seconds(steps.time[step])) + size;
  }

  // What is below the pointer: a step that was published, or what the rank did.
  function tip(event) {
    const box = canvas.getBoundingClientRect(), place = Math.floor((event.clientY - box.top - TOP) / ROW), note = element("tip");
    const row = rows[place], tick = tickAt(event.clientX);
    note.hidden = true;
    if (!row || event.clientX < box.left + gutter()) return;
    const near = ((view.to - view.from) / (box.width - gutter())) * 5, lines = [];
    for (let step = above(steps.time, tick - near); step < steps.count && steps.time[step] <= tick + near && lines.length < 3; ++step)
      if (rowOfStep(step) === place) lines.push(stepTold(step));
    const segment = above(row.ends, tick);
    if (segment < row.ends.length && tick >= row.at) {
      const begin = segment ? row.ends[segment - 1] : row.at, port = row.ports[segment];
      lines.push(row.name + ": " + data.activities[Number(row.kinds[segment])] + (port >= 0 ? ", " + data.patterns[port] : "") + ", " + durationText(seconds(row.ends[segment] - begin)));
    }
    if (!lines.length) return;
    note.textContent = lines.join("\n");
    note.hidden = false;
    note.style.left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - note.offsetWidth - 8)) + "px";
    note.style.top = Math.max(4, Math.min(event.clientY + 16, window.innerHeight - note.offsetHeight - 8)) + "px";
  }

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
  }, mine);
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return tip(event);
    element("tip").hidden = true;
    const before = [...pointers.values()];
    const ticks = (view.to - view.from) / (canvas.clientWidth - gutter());
    if (pointers.size === 1) {
      const by = (before[0] - event.clientX) * ticks;
      pointers.set(event.pointerId, event.clientX);
      return show(view.from + by, view.to + by);
    }
    pointers.set(event.pointerId, event.clientX);
    const after = [...pointers.values()];
    const apart = (two) => Math.max(8, Math.abs(two[0] - two[1]));
    zoom(apart(before) / apart(after), tickAt((after[0] + after[1]) / 2));
  }, mine);
  for (const kind of ["pointerup", "pointercancel", "pointerleave"])
    canvas.addEventListener(kind, (event) => {
      pointers.delete(event.pointerId);
      element("tip").hidden = true;
    }, mine);
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoom(1.0015 ** event.deltaY, tickAt(event.clientX));
  }, { passive: false, ...mine });
  canvas.addEventListener("dblclick", (event) => zoom(0.4, tickAt(event.clientX)), mine);
  canvas.addEventListener("keydown", (event) => {
    const by = (view.to - view.from) / 6;
    const acts = {
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => show(0, data.end),
      ArrowLeft: () => show(view.from - by, view.to - by), ArrowRight: () => show(view.from + by, view.to + by),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  }, mine);
  element("in").onclick = () => zoom(0.5);
  element("out").onclick = () => zoom(2);
  element("all").onclick = () => show(0, data.end);
  element("before").onclick = () => find(-1);
  element("after").onclick = () => find(1);
  element("as-bytes").onchange = draw;
  element("find").addEventListener("keydown", (event) => { if (event.key === "Enter") find(event.shiftKey ? -1 : 1); }, mine);
  element("find").addEventListener("search", () => { if (!element("find").value) find(1); }, mine);
  window.addEventListener("resize", draw, mine);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, mine);
  window.addEventListener("beforeprint", drawAll, mine);
  drawAll();
  document.documentElement.dataset.ready = "yes";
};
window.showTimeline();
