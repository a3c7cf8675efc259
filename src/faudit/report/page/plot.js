// Plots with Vega-Lite, drawn as SVG. Colours are variables of the page, so a change of theme redraws nothing.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";
const CONFIG = {
  background: "transparent", font: FONT, view: {stroke: null},
  axis: {labelColor: "currentColor", titleColor: "currentColor", domainColor: "currentColor", tickColor: "currentColor", gridColor: "currentColor", gridOpacity: 0.12, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, labelOverlap: true},
  legend: {labelColor: "currentColor", titleColor: "currentColor", labelFontSize: 12, titleFontSize: 12, labelLimit: 420, symbolStrokeWidth: 2.2, symbolSize: 500, symbolOpacity: 1},
  title: {color: "currentColor"},
};
const PRINT = {currentColor: "#1b1f23"};  // what the colours of the page are in a downloaded picture
const LEGEND_LIMIT = 14;  // methods with a legend of their own; for more, the legend shows rules

const LABEL = "abs(datum.value) >= 1e5 || (datum.value != 0 && abs(datum.value) < 1e-3) ? format(datum.value, '.0e') : format(datum.value, '~g')";

function decades([low, high]) {  // ticks of a logarithmic axis: powers of ten, and 2 and 5 times them if they are few
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), step = Math.max(1, Math.ceil((to - from) / 9));
  const powers = Array.from({length: to - from + 1}, (_, place) => from + place).filter((power) => power % step === 0);
  const ticks = powers.flatMap((power) => (to - from <= 3 ? [1, 2, 5] : [1]).map((digit) => Number(`${digit}e${power}`)));
  return ticks.filter((found) => found >= low && found <= high);
}
// Of the parent, because Vega makes its host as wide as the plot.
const widthOf = (host) => Math.max(280, Math.min(1200, host.parentElement.clientWidth || 900));

async function draw(host, spec) {
  if (host.view) host.view.finalize();
  const options = {mode: "vega-lite", renderer: "svg", actions: false, hover: false, logLevel: 1, tooltip: (_, event, __, text) => tip(event, text), config: CONFIG};
  const {view} = await vegaEmbed(host, spec, options);
  host.view = view;
  const svg = host.querySelector("svg");
  if (svg) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", spec.description); }
  return view;
}
function tip(event, text) {
  const box = byId("tip");
  box.hidden = text === null || text === undefined || text === "";
  if (box.hidden) return;
  box.textContent = text;
  const wide = box.offsetWidth, x = event.clientX + 14;
  box.style.left = `${Math.max(4, Math.min(x, window.innerWidth - wide - 8))}px`;
  box.style.top = `${event.clientY + 16}px`;
}
async function saveSvg(host, name) {
  const text = await host.view.toSVG();
  const colours = text.replace(/var\((--c\d+)\)/g, (_, colour) => lightColours[colour] || "#000").replaceAll("currentColor", PRINT.currentColor);
  download(name, colours, "image/svg+xml");
}

// One variable for each method. The values come from a table of faudit and are checked here all the same.
let lightColours = {};
function paint() {
  const safe = (colour) => (/^#[0-9a-f]{6}$/i.test(colour) ? colour : "#666666");
  const named = (which) => report.methods.map((one) => `--c${one.key}:${safe(one[which])};`).join("");
  lightColours = Object.fromEntries(report.methods.map((one) => [`--c${one.key}`, safe(one.colour)]));
  byId("colours").textContent = `:root{${named("colour")}}
@media screen and (prefers-color-scheme: dark){:root:not([data-theme="light"]){${named("dark")}}}
@media screen{:root[data-theme="dark"]{${named("dark")}}}`;
}
const colourOf = (one) => `var(--c${one.key})`;
function keyOf(one) {  // a short line in the colour and dash of a method
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
  for (const [name, text] of Object.entries({class: "key", viewBox: "0 0 30 10", "aria-hidden": "true"})) svg.setAttribute(name, text);
  for (const [name, text] of Object.entries({x1: 0, x2: 30, y1: 5, y2: 5, stroke: colourOf(one), "stroke-width": 3, "stroke-dasharray": one.dash.join(" ")})) line.setAttribute(name, text);
  svg.append(line);
  return svg;
}

// ---- trajectories ------------------------------------------------------------------------------------------------

const trajectory = {entry: "", place: "", scale: "auto", seeds: "band", fires: true, cursor: null};
let lines = [];  // what is drawn: {method, label, points: [[epoch, value, low, high], …], run}

const isScalar = (entry) => report.entries[entry].shape === "scalar";
const numeric = () => Object.keys(report.entries).filter((name) => name !== "epoch" && ["number", "count", "flag"].includes(report.entries[name].kind));
const asNumber = (found) => (typeof found === "boolean" ? Number(found) : isNumber(found) ? found : null);

function placesOf(entry) {  // [[value, text], …] of the choice "place"
  if (isScalar(entry)) return [["", "one number"]];
  const count = Math.max(0, ...Object.values(series).map((columns) => (columns[entry] || []).length));
  const what = {taps: "tap", blocks: "block", parts: "part", feedback: "feedback"}[report.entries[entry].shape] || "place";
  const single = Array.from({length: count}, (_, place) => [String(place), `${what} ${place}`]);
  return [["last", `last ${what}`], ["deep", `mean of ${what} 1 and later`], ...single];
}
function valueAt(columns, place, row) {
  if (place === "") return asNumber(columns[row]);
  if (place === "last") return columns.length ? asNumber(columns[columns.length - 1][row]) : null;
  if (place === "deep") {
    const deep = (columns.length > 1 ? columns.slice(1) : columns).map((column) => asNumber(column[row]));
    return deep.length && deep.every((found) => found !== null) ? deep.reduce((a, b) => a + b, 0) / deep.length : null;
  }
  return columns[Number(place)] ? asNumber(columns[Number(place)][row]) : null;
}
function pointsOf(run) {
  const own = series[run.name], columns = own && own[trajectory.entry];
  if (!columns) return [];
  return own.epoch.map((epoch, row) => [epoch, valueAt(columns, trajectory.place, row)]).filter(([, found]) => found !== null);
}
function linesOf(runs, logarithmic) {
  if (trajectory.seeds === "lines") {
    return runs.map((run) => ({method: method(run), run, label: `${method(run).label}, seed ${run.seed}`, points: pointsOf(run).map(([epoch, found]) => [epoch, found, null, null])})).filter((one) => one.points.length);
  }
  const groups = new Map();
  for (const run of runs) groups.set(method(run), [...(groups.get(method(run)) || []), run]);
  return [...groups].map(([one, members]) => {
    const at = new Map();
    for (const run of members) for (const [epoch, found] of pointsOf(run)) at.set(epoch, [...(at.get(epoch) || []), found]);
    // On a logarithmic axis the mean is geometric and the band is that of the logarithm, as in the figures.
    const geometric = logarithmic && [...at.values()].flat().every((found) => found > 0);
    const points = [...at].sort(([a], [b]) => a - b).map(([epoch, values]) => [epoch, ...meanAndBand(values, geometric)]);
    return {method: one, run: null, label: `${one.label} (n = ${members.length})`, points};
  }).filter((one) => one.points.length);
}
function meanAndBand(values, geometric) {
  const scaled = geometric ? values.map(Math.log) : values;
  const mean = scaled.reduce((a, b) => a + b, 0) / scaled.length;
  const back = geometric ? Math.exp : (x) => x;
  if (scaled.length < 2) return [back(mean), null, null];
  const spread = Math.sqrt(scaled.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (scaled.length - 1));
  return [back(mean), back(mean - spread), back(mean + spread)];
}
function firesOf(runs) {  // the first epoch at which each check would have fired, on the line of its run or method
  const found = [];
  for (const run of runs) {
    const line = lines.find((one) => (one.run ? one.run === run : one.method === method(run)));
    for (const finding of line ? run.findings : []) {
      const point = finding.first_fire !== null && line.points.find(([epoch]) => epoch === finding.first_fire);
      if (point) found.push({e: point[0], v: point[1], m: line.method, t: `${finding.check} first fires at epoch ${point[0]}\n${run.name}`});
    }
  }
  return found;
}

async function drawTrajectory() {
  const host = byId("trajectory-plot"), about = report.entries[trajectory.entry];
  const runs = selected().filter((run) => run.verdict !== "damaged");
  lines = about ? linesOf(runs, trajectory.scale === "log") : [];
  let known = lines.flatMap((one) => one.points.map(([, found]) => found));
  const positive = known.filter((found) => found > 0);
  if (trajectory.scale === "auto" && positive.length === known.length && known.length && Math.max(...extent(positive)) > 50 * extent(positive)[0]) lines = linesOf(runs, true);
  const logarithmic = trajectory.scale === "log" || (trajectory.scale === "auto" && positive.length === known.length && known.length > 0 && extent(positive)[1] > 50 * extent(positive)[0]);
  const left = logarithmic ? known.length - positive.length : 0;
  const name = `${trajectory.entry}${trajectory.place === "" ? "" : `, ${(placesOf(trajectory.entry).find(([key]) => key === trajectory.place) || ["", ""])[1]}`}`;
  byId("trajectory-text").textContent = !about ? "There is nothing to draw yet." : `${trajectory.entry}: ${about.text}` +
    (left ? ` ${left} values that are not above zero have no place on a logarithmic axis.` : "") +
    (lines.length ? "" : " No selected run has this entry.");
  known = logarithmic ? positive : known;
  if (!known.length) { if (host.view) host.view.finalize(); host.view = null; fill(host); drawCursor(); return; }
  const few = new Set(lines.map((one) => one.method)).size <= LEGEND_LIMIT;
  const used = report.methods.filter((one) => lines.some((line) => line.method === one));
  const keyed = few ? used : used.filter((one, place) => used.findIndex((other) => other.rule === one.rule) === place);
  const text = Object.fromEntries(keyed.map((one) => [`m${one.key}`, few ? one.label : one.rule]));
  const group = (one) => `m${(few ? one : keyed.find((other) => other.rule === one.rule)).key}`;
  const data = lines.flatMap((one, place) => one.points.filter(([, found]) => !logarithmic || found > 0)
    .map(([e, v, lo, hi]) => ({e, v, lo: logarithmic && !(lo > 0) ? null : lo, hi, g: group(one.method), l: place})));
  const epochs = data.map((point) => point.e);
  const band = data.filter((point) => point.lo !== null && point.hi !== null);
  const edges = [...data.map((point) => point.v), ...band.flatMap((point) => [point.lo, point.hi])].filter((found) => found > 0);
  const range_ = logarithmic ? [extent(edges)[0] / 1.3, extent(edges)[1] * 1.3] : null;
  const y = {type: "quantitative", title: about.unit ? `${name} (${about.unit})` : name, scale: logarithmic ? {type: "log", nice: false, domain: range_} : {type: "linear", zero: false, nice: true}, axis: {labelExpr: LABEL, ...(logarithmic ? {values: decades(range_)} : {tickCount: 6})}};
  const domain = extent(epochs);
  const x = {field: "e", type: "quantitative", title: "epoch", scale: {domain: domain[0] === domain[1] ? [domain[0] - 1, domain[1] + 1] : domain, nice: false}, axis: {tickMinStep: 1, grid: false}};
  const range = keyed.map(colourOf), keys = keyed.map((one) => `m${one.key}`);
  const wide = widthOf(host), longest = Math.max(0, ...Object.values(text).map((one) => one.length));
  const columns = Math.max(1, Math.floor(wide / (longest * 6.5 + 60)));  // about as wide as the names
  const legend = {title: null, orient: "bottom", columns, symbolType: "stroke", labelExpr: `(${JSON.stringify(text).replaceAll("<", "\\u003c")})[datum.value]`, labelLimit: Math.floor(wide / columns) - 50};
  const colour = {field: "g", type: "nominal", scale: {domain: keys, range}, legend};
  const dash = {field: "g", type: "nominal", scale: {domain: keys, range: keyed.map((one) => (one.dash.length && few ? one.dash : [1, 0]))}, legend};
  const marks = trajectory.fires ? firesOf(runs).map(({m, ...one}) => ({...one, g: group(m)})).filter((one) => !logarithmic || one.v > 0) : [];
  const layer = [
    {data: {values: band}, mark: {type: "area", opacity: 0.15, aria: false}, encoding: {x, y: {...y, field: "lo"}, y2: {field: "hi"}, color: colour, detail: {field: "l"}}},
    {mark: {type: "line", strokeWidth: lines.length > 40 ? 1 : 1.8, opacity: lines.length > 40 ? 0.55 : 1, clip: true, aria: false, point: data.length <= lines.length ? {filled: true} : false}, encoding: {x, y: {...y, field: "v"}, color: colour, strokeDash: dash, detail: {field: "l"}}},
    {data: {values: marks}, mark: {type: "point", shape: "triangle-down", filled: true, size: 110, yOffset: -7, stroke: "currentColor", strokeWidth: 0.8, aria: false}, encoding: {x, y: {...y, field: "v"}, color: colour, tooltip: {field: "t"}}},
    {data: {values: [{}]}, mark: {type: "rule", color: "currentColor", strokeDash: [3, 3], aria: false}, encoding: {x: {datum: {expr: "cursor"}, type: "quantitative"}, opacity: {value: {expr: "shown"}}}},
  ];
  const drawn = marks.length ? ", with the first epoch at which a check fires" : "";
  const view = await draw(host, {
    description: `${name} over the epochs: ${lines.length} lines${drawn}. The values at an epoch are listed below.`,
    width: wide - 90, height: Math.max(240, Math.min(420, wide * 0.42)), autosize: {type: "pad"},
    params: [{name: "cursor", value: domain[0]}, {name: "shown", value: 0}],
    data: {values: data}, layer: band.length ? layer : layer.slice(1),
  });
  view.addEventListener("mousemove", (event) => {
    const box = host.querySelector("svg").getBoundingClientRect(), {left, top} = view.padding(), [x0, y0] = view.origin();
    moveCursor(view.scale("x").invert(event.clientX - box.left - left - x0), event.clientY - box.top - top - y0, view);
  });
  host.onmouseleave = () => byId("tip").hidden = true;
  drawCursor();
}
function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const found of values) { if (found < low) low = found; if (found > high) high = found; }
  return [low, high];
}
function loggedEpochs() {
  return [...new Set(lines.flatMap((one) => one.points.map(([epoch]) => epoch)))].sort((a, b) => a - b);
}
function moveCursor(epoch, height, view) {
  const logged = loggedEpochs();
  if (!logged.length || !Number.isFinite(epoch)) return;
  trajectory.cursor = logged.reduce((best, one) => (Math.abs(one - epoch) < Math.abs(best - epoch) ? one : best));
  drawCursor(height === undefined ? null : view.scale("y").invert(height));
}
function drawCursor(near = null) {
  const logged = loggedEpochs(), slider = byId("cursor"), view = byId("trajectory-plot").view;
  slider.disabled = !logged.length;
  if (!logged.length) { fill(byId("readout")); byId("cursor-epoch").textContent = ""; return; }
  if (trajectory.cursor === null || !logged.includes(trajectory.cursor)) trajectory.cursor = logged[logged.length - 1];
  slider.min = 0; slider.max = logged.length - 1; slider.value = logged.indexOf(trajectory.cursor);
  slider.setAttribute("aria-valuetext", `epoch ${trajectory.cursor}`);
  byId("cursor-epoch").textContent = `epoch ${trajectory.cursor}`;
  const there = lines.map((one) => ({one, point: one.points.find(([epoch]) => epoch === trajectory.cursor)})).filter(({point}) => point);
  const apart = (found) => Math.abs((near > 0 && found > 0 ? Math.log(found) - Math.log(near) : found - near));
  const closest = near === null ? null : there.reduce((best, each) => (!best || apart(each.point[1]) < apart(best.point[1]) ? each : best), null);
  there.sort((a, b) => b.point[1] - a.point[1]);
  let from = closest ? Math.max(0, Math.min(there.indexOf(closest) - 8, there.length - 18)) : 0;
  const shown = there.slice(from, from + 18);
  fill(byId("readout"), make("ul", {class: "values", "aria-label": `Values at epoch ${trajectory.cursor}`},
    ...shown.map(({one, point}) => make("li", {class: closest && closest.one === one ? "near" : ""}, keyOf(one.method), make("span", {class: "what", title: one.label}, one.label),
      make("span", {class: "num"}, precise(point[1]) + (point[2] === null ? "" : ` [${size(point[2])}, ${size(point[3])}]`))))),
    there.length > shown.length ? make("p", {class: "sub"}, `${there.length - shown.length} more lines; move the cursor to them or filter the runs.`) : "");
  if (view) view.signal("cursor", trajectory.cursor).signal("shown", 0.7).runAsync();
}
function trajectoryCsv() {
  const lines_ = [["method", "run", "epoch", "value", "low", "high"], ...lines.flatMap((one) => one.points.map((point) => [one.method.name, one.run ? one.run.name : null, ...point]))];
  download(`${trajectory.entry}.csv`, csv(lines_), "text/csv");
}

// ---- layers × epochs ---------------------------------------------------------------------------------------------

const layers = {run: ""};
const MAPS = [["hidden_norms", "log", "Size of the hidden state at each tap"], ["grad_norms", "log", "Size of the true gradient at each tap"], ["gamma", "cosine", "Γ: cosine between credit and true gradient at each block"]];

async function drawLayers() {
  const own = series[layers.run], hosts = byId("layer-plots");
  const there = MAPS.filter(([entry]) => own && own[entry] && own[entry].length);
  fill(hosts, ...there.map(([entry, , title]) => make("figure", {class: "plot"}, make("h3", {}, `${title} (${entry}, ${report.entries[entry].unit})`), make("div", {id: `map-${entry}`}), make("p", {class: "downloads"},
    downloadButton("SVG", () => saveSvg(byId(`map-${entry}`), `${entry}-${layers.run}.svg`)), downloadButton("CSV", () => layerCsv(entry))))));
  if (!there.length) fill(hosts, make("p", {class: "lead"}, "This run has no rows yet."));
  for (const [entry, kind, title] of there) {
    const epochs = own.epoch, edges = epochs.map((epoch, row) => [row ? (epochs[row - 1] + epoch) / 2 : epoch - 0.5, row + 1 < epochs.length ? (epoch + epochs[row + 1]) / 2 : epoch + 0.5]);
    const under = (row) => edges[row][1] + (row + 1 < epochs.length ? (edges[row][1] - edges[row][0]) / 10 : 0);  // a cell reaches below the next one, so that no seam shows
    const what = report.entries[entry].shape === "blocks" ? "block" : "tap";
    const cells = own[entry].flatMap((column, place) => column.map((found, row) => ({e: edges[row][0], f: under(row), p: place, v: asNumber(found), t: `epoch ${epochs[row]}, ${what} ${place}\n${entry} ${exact(found)}`})));
    const known = cells.filter((cell) => cell.v !== null && (kind !== "log" || cell.v > 0));
    const lost = cells.filter((cell) => !known.includes(cell));
    const host = byId(`map-${entry}`), wide = widthOf(host);
    const most = Math.max(0.05, ...known.map((cell) => Math.abs(cell.v)));
    const scale = kind === "log" ? {type: "log", scheme: "viridis"} : {domain: [-most, 0, most], range: ["#b35806", "#f7f7f7", "#2166ac"], type: "linear", clamp: true};
    const x = {field: "e", type: "quantitative", title: "epoch", scale: {domain: [edges[0][0], edges[edges.length - 1][1]], nice: false}, axis: {grid: false, tickMinStep: 1}};
    const y = {field: "p", type: "ordinal", sort: "descending", title: what, axis: {grid: false}};
    await draw(host, {
      description: `${title} over the epochs of ${layers.run}. The CSV below holds the numbers.`, width: wide - 130, height: {step: 24},
      layer: [
        {data: {values: known}, mark: {type: "rect", aria: false}, encoding: {x, x2: {field: "f"}, y, color: {field: "v", type: "quantitative", scale, legend: {title: null, gradientLength: 110, labelExpr: LABEL, ...(kind === "log" && known.length ? {values: decades(extent(known.map((cell) => cell.v)))} : {tickCount: 4})}}, tooltip: {field: "t"}}},
        {data: {values: lost}, mark: {type: "rect", fill: "transparent", stroke: "currentColor", strokeOpacity: 0.35, strokeDash: [2, 2], aria: false}, encoding: {x, x2: {field: "f"}, y, tooltip: {field: "t"}}},
      ],
    });
  }
}
function layerCsv(entry) {
  const own = series[layers.run];
  download(`${entry}-${layers.run}.csv`, csv([["epoch", ...own[entry].map((_, place) => `${entry}[${place}]`)], ...own.epoch.map((epoch, row) => [epoch, ...own[entry].map((column) => column[row])])]), "text/csv");
}
