// The start of the page: first the verdicts, then the tables, then the plots when their data are unpacked.

function drawFilters() {
  const form = byId("filters");
  const held = form.contains(document.activeElement);
  if (held) return;  // somebody is typing or choosing
  const facets = ["verdict", "status", ...report.differing.filter((key) => key !== "seed"), "seed"].map((key) => [key, [...new Set(Object.values(report.runs).map((run) => value(run, key)).filter((found) => found !== undefined))]])
    .filter(([key, values]) => (values.length > 1 && values.length <= 60) || selection.facets[key]);
  const box = make("input", {type: "search", placeholder: "dfa lr>0.001 seed!=3", "aria-describedby": "filter-help", autocomplete: "off", spellcheck: "false", oninput: () => { selection.text = box.value; later(); }});
  box.value = selection.text;
  fill(form, make("label", {}, "filter: words, or any setting with = != < >", box),
    ...facets.map(([key, values]) => choice(key, [["", "all"], ...values.sort(inOrder).map((found) => [found, found])], selection.facets[key] || "", (wanted) => { selection.facets[key] = wanted; drawSelection(); })),
    make("button", {type: "button", onclick: () => { selection.text = ""; selection.facets = {}; document.activeElement.blur(); drawFilters(); drawSelection(); }}, "Clear"));
}
const inOrder = (a, b) => (Number.isNaN(Number(a)) || Number.isNaN(Number(b)) ? a.localeCompare(b) : Number(a) - Number(b));
let timer = 0;
function later() {
  clearTimeout(timer);
  timer = setTimeout(drawSelection, 120);
}
function drawSelection() {
  drawRuns();
  drawFindings();
  drawPlots();
}
function drawPlots() {
  if (series) { drawTrajectoryControls(); drawLayerControls(); }
}

function drawTrajectoryControls() {
  const entries = numeric();
  if (!entries.includes(trajectory.entry)) trajectory.entry = ["hidden_norms", "acc_eval"].find((name) => entries.includes(name)) || entries[0] || "";
  const places = trajectory.entry ? placesOf(trajectory.entry) : [];
  if (!places.some(([key]) => key === trajectory.place)) trajectory.place = places.length ? (trajectory.entry.startsWith("gamma") || trajectory.entry.startsWith("rho") ? places[Math.min(1, places.length - 1)][0] : places[0][0]) : "";
  const again = (key) => (found) => { trajectory[key] = found; drawTrajectoryControls(); };
  refill(byId("trajectory-controls"),
    choice("entry", entries.map((name) => [name, name]), trajectory.entry, (name) => { trajectory.entry = name; trajectory.place = "?"; drawTrajectoryControls(); }),
    choice("place", places, trajectory.place, again("place")),
    choice("axis", [["auto", "log over decades"], ["linear", "linear"], ["log", "logarithmic"]], trajectory.scale, again("scale")),
    choice("seeds", [["band", "mean ± s.d."], ["lines", "one line per seed"]], trajectory.seeds, again("seeds")),
    tick("mark where checks first fire (▾)", trajectory.fires, again("fires")));
  whenSeen(byId("trajectories"), drawTrajectory);
}
function drawLayerControls() {
  const runs = selected().filter((run) => run.verdict !== "damaged");
  if (!runs.some((run) => run.name === layers.run)) layers.run = runs.length ? runs[0].name : "";
  refill(byId("layer-controls"), choice("run", runs.map((run) => [run.name, `${method(run).label}, seed ${run.seed}`]), layers.run, (name) => { layers.run = name; whenSeen(byId("layers"), drawLayers); }));
  whenSeen(byId("layers"), drawLayers);
}

// A plot is drawn when its section is near the screen, and again when its data change.
const waiting = new Map();
const watcher = new IntersectionObserver((changes) => {
  for (const {target, isIntersecting} of changes) {
    target.near = isIntersecting;
    if (isIntersecting && waiting.has(target)) run(target);
  }
}, {rootMargin: "400px"});
function whenSeen(section, action) {
  waiting.set(section, action);
  if (section.near) run(section);
  watcher.observe(section);
}
let busy = Promise.resolve();
function run(section) {
  const action = waiting.get(section);
  waiting.delete(section);
  busy = busy.then(action);
}

function drawAll() {
  paint();
  drawHead();
  drawMethods();
  drawFilters();
  drawSelection();
  drawClaims();
  showRun(shownRun);
  byId("template-text").textContent = report.template;
}

function theme() {
  const select = byId("theme");
  select.addEventListener("change", () => {
    if (select.value === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", select.value);
  });
}

async function start() {
  index();
  theme();
  drawAll();
  byId("cursor").addEventListener("input", () => { trajectory.cursor = loggedEpochs()[Number(byId("cursor").value)]; drawCursor(); });
  byId("copy").addEventListener("click", () => copy(report.template));
  fill(byId("trajectory-downloads"), downloadButton("SVG of this plot", () => saveSvg(byId("trajectory-plot"), `${trajectory.entry}.svg`)), downloadButton("CSV of this plot", trajectoryCsv));
  for (const form of document.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; whenSeen(byId("trajectories"), drawTrajectory); whenSeen(byId("layers"), drawLayers); } });
  window.addEventListener("beforeprint", () => { for (const section of [...waiting.keys()]) run(section); });
  await unpack();
  drawPlots();
  document.documentElement.setAttribute("data-ready", Math.round(performance.now()));  // milliseconds since the click
  if (report.live) follow();
}
function follow() {
  const line = byId("live");
  line.hidden = false;
  line.textContent = "Live: new rows appear by themselves.";
  let lost = false;
  poll(() => drawAll(), (there) => {
    if (there === !lost) return;
    lost = !there;
    line.classList.toggle("lost", lost);
    line.textContent = lost ? "The server has stopped. This is what it showed last." : "Live: new rows appear by themselves.";
  });
}
async function copy(text) {
  const said = byId("copied");
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied.";
  } catch (error) {  // a page from disk may not use the clipboard
    const range = document.createRange();
    range.selectNodeContents(byId("template-text"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    said.textContent = document.execCommand("copy") ? "Copied." : "Selected: copy it with your keyboard.";
  }
}
start();
