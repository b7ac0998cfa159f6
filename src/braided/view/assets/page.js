"use strict";
// Everything that came from the query goes onto the page as text; nothing is parsed as markup.
const SVG = "http://www.w3.org/2000/svg";
const W = 480, H = 190, LEFT = 76, RIGHT = 8, TOP = 12, BOTTOM = 22;
const byId = (id) => document.getElementById(id);

function make(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

const short = (n) => (n >= 1000 ? Math.round(n).toLocaleString("en") : String(Number(n.toPrecision(3))));
function scaled(n, units) {
  for (const [unit, name] of units) if (n >= unit) return `${short(n / unit)} ${name}`;
  return null;
}
const FORMATS = {
  rows: (n) => scaled(n, [[1e9, "G"], [1e6, "M"]]) ?? short(n),
  bytes: (n) => scaled(n, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) ?? `${short(n)} B`,
  seconds: (n) => scaled(n, [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) ?? (n ? `${short(n * 1e3)} ms` : "0 s"),
  share: (n) => `${short(n * 100)} %`,
};
// A time of day; the date, too, if the chart spans more than one.
function clock(seconds, chart) {
  const [first, last, here] = [chart.times[0], chart.times.at(-1), seconds].map((s) => new Date(s * 1000));
  return first.toDateString() === last.toDateString() ? here.toLocaleTimeString() : here.toLocaleString();
}

function ceiling(top, unit) {
  if (!(top > 0)) return unit === "rows" ? 4 : 1;
  if (unit === "rows") return Math.max(4, round(top));
  const base = unit === "seconds" ? [86400, 3600, 60].find((b) => top > b) ?? 1 : 1;
  return base * round(top / base);
}

function round(top) {
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find((n) => n * power >= top * 0.999) * power;
}

// Bottom and top of each line's area; lines have no bottom.
function layers(chart) {
  const base = chart.times.map(() => 0);
  return Object.values(chart.series).map((values) => values.map((v, i) => {
    if (v === null) return null;
    if (!chart.stacked) return [0, v];
    base[i] += v;
    return [base[i] - v, base[i]];
  }));
}

// Runs of neighbours that are known.
function runs(points) {
  const known = [];
  points.forEach((p, i) => {
    if (p === null) return;
    if (i && points[i - 1] !== null) known.at(-1).push(i); else known.push([i]);
  });
  return known;
}

function figure(chart) {
  const names = Object.keys(chart.series), box = make("figure"), title = make("figcaption", chart.title);
  box.append(title);
  if (!names.length) {
    box.append(make("p", chart.nothing || "Nothing yet.", "quiet"));
    return box;
  }
  const format = FORMATS[chart.unit], now = make("span"), drawn = layers(chart);
  title.append(now);
  const latest = () => { now.textContent = names.length === 1 || chart.stacked ? sum(chart.times.length - 1) : ""; };
  const sum = (i) => format(names.reduce((total, n) => total + (chart.series[n][i] ?? 0), 0));
  latest();
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  draw(svg, "title", {}, chart.title);
  box.append(svg);
  const peak = Math.max(...drawn.flat().map((p) => (p ? p[1] : 0)), chart.limit ?? 0);
  const top = ceiling(peak, chart.unit), first = chart.times[0], length = chart.times.at(-1) - first || 1;
  const alone = chart.times.length === 1;
  const x = (i) => LEFT + (W - LEFT - RIGHT) * (alone ? 0.5 : (chart.times[i] - first) / length);
  const y = (v) => H - BOTTOM - ((H - TOP - BOTTOM) * v) / top;
  for (let i = 0; i <= 4; i++) {
    const at = (top * i) / 4;
    draw(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(at), y2: y(at) });
    draw(svg, "text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, format(at));
  }
  draw(svg, "text", { x: LEFT, y: H - 5 }, clock(first, chart));
  draw(svg, "text", { x: W - RIGHT, y: H - 5, "text-anchor": "end" }, clock(chart.times.at(-1), chart));
  drawn.forEach((points, n) => runs(points).forEach((run) => {
    const line = run.map((i) => `${x(i).toFixed(1)},${y(points[i][1]).toFixed(1)}`);
    const below = run.map((i) => `${x(i).toFixed(1)},${y(points[i][0]).toFixed(1)}`).reverse();
    if (chart.stacked) draw(svg, "polygon", { class: `area f${n % 8}`, points: [...line, ...below].join(" ") });
    if (run.length > 1) draw(svg, "polyline", { class: `stroke s${n % 8}`, points: line.join(" ") });
    if (run.length === 1 || chart.times.length <= 60)
      for (const i of run) draw(svg, "circle", { class: `f${n % 8}`, r: 2.5, cx: x(i), cy: y(points[i][1]) });
  }));
  if (chart.limit !== null) {
    draw(svg, "line", { class: "limit", x1: LEFT, x2: W - RIGHT, y1: y(chart.limit), y2: y(chart.limit) });
    const under = y(chart.limit) < TOP + 16;
    draw(svg, "text", { class: "limit-name", x: W - RIGHT, y: y(chart.limit) + (under ? 16 : -4), "text-anchor": "end" },
      `budget ${format(chart.limit)}`);
  }
  hover(svg, chart, x, names, format, now, latest);
  if (names.length > 1) {
    const legend = make("ul", undefined, "legend");
    names.forEach((name, n) => {
      const item = make("li");
      item.append(make("i", undefined, `b${n % 8}`), name);
      legend.append(item);
    });
    box.append(legend);
  }
  return box;
}

function hover(svg, chart, x, names, format, now, latest) {
  const ruler = draw(svg, "line", { class: "grid", y1: TOP, y2: H - BOTTOM, visibility: "hidden" });
  svg.addEventListener("pointermove", (event) => {
    const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * W;
    let near = 0;
    chart.times.forEach((_, i) => { if (Math.abs(x(i) - at) < Math.abs(x(near) - at)) near = i; });
    for (const key of ["x1", "x2"]) ruler.setAttribute(key, x(near));
    ruler.setAttribute("visibility", "visible");
    const values = names.map((n) => (chart.series[n][near] === null ? "?" : format(chart.series[n][near])));
    now.textContent = `${clock(chart.times[near], chart)}: ${values.join(", ")}`;
  });
  svg.addEventListener("pointerleave", () => { ruler.setAttribute("visibility", "hidden"); latest(); });
}

function table([titles, ...rows]) {
  const row = (cells, name) => {
    const node = make("tr");
    node.append(...cells.map((cell) => make(name, cell)));
    return node;
  };
  byId("streams").replaceChildren(row(titles, "th"), ...rows.map((cells) => row(cells, "td")));
}

function decisions(last) {
  const sentences = [];
  if (last.driver_streams.length) sentences.push(`Driver streams: ${last.driver_streams.join(" > ")}.`);
  const watermark = last.numbers.watermark_us;
  if (watermark !== undefined) sentences.push(`Watermark: ${new Date(watermark / 1000).toLocaleString()}.`);
  const rationed = Object.entries(last.half_joins).filter(([, h]) => h.allowance !== undefined);
  const allowed = rationed.map(([name, h]) => `${name} ${FORMATS.rows(h.allowance)}`);
  if (allowed.length) sentences.push(`May probe: ${allowed.join(", ")}.`);
  byId("decisions").replaceChildren(...sentences.map((text) => make("p", text)));
}

function tiles(summary) {
  byId("summary").replaceChildren(...summary.map(([name, value]) => {
    const tile = make("div");
    tile.append(make("dt", name), make("dd", value));
    return tile;
  }));
}

function adaptations(latest) {
  const box = byId("adaptations");
  box.hidden = !latest.length;
  box.querySelector("ol").replaceChildren(...latest.map(([batch, text]) => {
    const item = make("li");
    item.append(make("b", `batch ${batch}`), text);
    return item;
  }));
}

let shown = "";
async function refresh() {
  try {
    const answer = await fetch("/records.json", { cache: "no-store" });
    const text = await answer.text();
    if (text !== shown && !document.querySelector("svg:hover")) {
      show(JSON.parse(text));
      shown = text;
    }
    byId("state").classList.remove("bad");
  } catch (error) {
    byId("state").textContent = "no connection: the query has ended, or it is no longer watched";
    byId("state").classList.add("bad");
    shown = "";
  }
  setTimeout(refresh, 1000);
}

function show(data) {
  byId("why").replaceChildren(...data.why.split("\n").map((sentence) => make("p", sentence)));
  byId("why").hidden = !data.why;
  const last = data.records.at(-1);
  if (!last) return;
  byId("state").textContent = `batch ${last.batch}, ${new Date(last.when * 1000).toLocaleString()}`;
  tiles(data.summary);
  table(data.table);
  decisions(last);
  byId("charts").replaceChildren(...data.charts.map(figure));
  adaptations(data.adaptations);
}

refresh();
