// The sections of the page: what each table and list shows.

const runLink = (name, text = name) => make("button", {type: "button", class: "link", onclick: () => showRun(name, true)}, text);
const methodCell = (one) => make("span", {title: one.name}, keyOf(one), one.label);
const leastAndMost = (values) => {
  if (!values.length) return DASH;
  const known = values.map(number).sort((a, b) => a - b), show = (found) => times(Number.isFinite(found) ? found : String(found).replace("Infinity", "inf"));
  const low = show(known[0]), high = show(known[known.length - 1]);
  return low === high ? low : `${low} … ${high}`;
};
const withSub = (text, sub) => make("span", {}, text, sub ? make("span", {class: "sub"}, sub) : null);

const METHOD_COLUMNS = [
  {key: "method", title: "method", class: "name", value: (one) => one.name, show: methodCell},
  {key: "verdict", title: "verdict", value: (one) => one.verdict, show: (one) => badge(one.headline)},
  {key: "reason", title: "why", class: "said", value: (one) => one.sentence, show: (one) => prose(one.sentence)},
  {key: "accuracy", title: "test accuracy", num: true, value: (one) => one.accuracy.mean, show: (one) => withSub(withSpread(one.accuracy, share), `n = ${one.accuracy.n}`)},
  {key: "growth", title: "growth", num: true, value: (one) => (one.growth.length ? Math.max(...one.growth.map(number)) : null), show: (one) => leastAndMost(one.growth)},
  {key: "gamma", title: "deep Γ", num: true, value: (one) => one.gamma.mean, show: (one) => withSub(withSpread(one.gamma, signed), one.null.mean === null ? (one.gamma.mean === null ? "" : one.null.none ? "no feedback to draw" : "null not measured") : `null ${signed(one.null.mean)}${one.null.std === null ? "" : ` ± ${fixed(one.null.std, 3)}`}`)},
];
const METHOD_CSV = [
  ...METHOD_COLUMNS.slice(0, 3),
  ...[["accuracy_mean", (one) => one.accuracy.mean], ["accuracy_sd", (one) => one.accuracy.std], ["n", (one) => one.accuracy.n], ["growth", (one) => one.growth],
    ["gamma_mean", (one) => one.gamma.mean], ["gamma_sd", (one) => one.gamma.std], ["null_mean", (one) => one.null.mean], ["null_sd", (one) => one.null.std]].map(([key, value]) => ({key, value})),
];

function runColumns() {
  const besides = ["rule", "seed"], last = (key) => (run) => (run.last ? run.last[key] : null);
  const settings = [...new Set([...besides, ...report.differing])].filter((name) => whole().some((run) => name in run.config));
  return [
    {key: "run", title: "run", class: "name", value: (run) => run.name, show: (run) => runLink(run.name)},
    {key: "verdict", title: "verdict", value: (run) => run.verdict, show: (run) => badge(run.headline)},
    {key: "status", title: "status", value: (run) => run.status, show: (run) => withSub(run.status, run.outcome && run.outcome.reason)},
    ...settings.map((name) => ({key: name, title: name, num: whole().every((run) => !(name in run.config) || isNumber(run.config[name])), value: (run) => (run.config && name in run.config ? run.config[name] : null), show: (run) => setting(run.config ? run.config[name] : undefined)})),
    {key: "epoch", title: "epoch", num: true, value: last("epoch")},
    {key: "test_acc", title: "test accuracy", num: true, value: last("test_acc"), show: (run) => share(last("test_acc")(run))},
    {key: "acc_eval", title: "accuracy (buffer)", num: true, value: last("acc_eval"), show: (run) => share(last("acc_eval")(run))},
    {key: "growth", title: "growth", num: true, value: last("growth"), show: (run) => times(last("growth")(run))},
    {key: "hidden_norm", title: "‖h_L‖", num: true, value: last("hidden_norm"), show: (run) => size(last("hidden_norm")(run))},
    {key: "grad_norm", title: "‖g_L‖", num: true, value: last("grad_norm"), show: (run) => size(last("grad_norm")(run))},
    {key: "gamma", title: "deep Γ", num: true, value: last("gamma"), show: (run) => signed(last("gamma")(run))},
    {key: "seconds", title: "time", num: true, value: last("seconds"), show: (run) => duration(last("seconds")(run))},
    {key: "peak_bytes", title: "memory", num: true, value: (run) => (run.outcome ? run.outcome.peak_bytes : null), show: (run) => bytes(run.outcome && run.outcome.peak_bytes)},
  ];
}
const interval = (one) => (one.low === null || one.low === undefined ? DASH : `${size(one.low)} to ${size(one.high)}`);
const FINDING_COLUMNS = [
  {key: "run", title: "run", class: "name", value: ({run}) => run.name, show: ({run}) => runLink(run.name)},
  {key: "check", title: "check", value: ({finding}) => finding.check, show: ({finding, label}) => (label ? `${finding.check} (label)` : finding.check)},
  {key: "finding", title: "finding", value: ({finding}) => finding.status, show: ({finding}) => badge(finding.status)},
  {key: "value", title: "value", num: true, value: ({finding}) => finding.value, show: ({finding}) => size(finding.value)},
  {key: "threshold", title: "threshold", num: true, value: ({finding}) => finding.threshold, show: ({finding}) => size(finding.threshold)},
  {key: "low", title: "95 % interval", num: true, value: ({finding}) => finding.low, show: ({finding}) => interval(finding)},
  {key: "first_fire", title: "first fired", num: true, help: "the first logged epoch at which the check would have fired", value: ({finding}) => finding.first_fire},
  {key: "reason", title: "what was found", class: "said", value: ({finding}) => finding.reason, show: ({finding}) => prose(finding.reason)},
];
const FINDING_CSV = [...FINDING_COLUMNS.slice(0, 6), {key: "high", value: ({finding}) => finding.high}, ...FINDING_COLUMNS.slice(6)];
const ACROSS_COLUMNS = [
  {key: "method", title: "method", class: "name", value: ({one}) => one.name, show: ({one}) => methodCell(one)},
  {key: "check", title: "check", value: ({check}) => check.check, show: ({check}) => make("span", {title: (report.checks[check.check] || {text: ""}).text}, check.check)},
  {key: "fired", title: "fired", num: true, value: ({check}) => check.fired, show: ({one, check}) => check.open || `${check.fired} of ${one.seeds.length}`},
  {key: "mean", title: "mean", num: true, value: ({check}) => check.mean, show: ({check}) => size(check.mean)},
  {key: "low", title: "95 % interval over seeds", num: true, value: ({check}) => check.low, show: ({check}) => interval(check)},
  {key: "threshold", title: "threshold", num: true, value: ({check}) => check.threshold, show: ({check}) => size(check.threshold)},
];
const CLAIM_COLUMNS = [
  {key: "number", title: "#", num: true, value: (row) => row.number},
  {key: "claim", title: "claim", class: "said", value: (row) => row.claim},
  {key: "published", title: "published", value: (row) => row.published},
  {key: "ours", title: "ours", class: "said", value: (row) => row.ours},
  {key: "n", title: "n", value: (row) => row.n},
  {key: "tolerance", title: "tolerance", value: (row) => row.tolerance},
  {key: "verdict", title: "verdict", value: (row) => row.verdict, show: (row) => badge(row.verdict)},
];

const tables = {};
const findingFilter = {status: ""};
let shownRun = "";

function drawHead() {
  const runs = Object.values(report.runs), seconds = whole().reduce((sum, run) => sum + (run.last.seconds || 0), 0);
  document.title = `faudit report: ${report.store}`;
  byId("title").textContent = report.store;
  byId("about").textContent = [`${runs.length} ${runs.length === 1 ? "run" : "runs"} of ${report.methods.length} ${report.methods.length === 1 ? "method" : "methods"}`, report.shared ? `all with ${report.shared}` : "", report.where.length ? `where ${report.where.join(", ")}` : "", `protocol ${report.protocol.name}`, `${duration(seconds)} of training`, report.live ? "live" : `made ${report.made}`, `faudit ${report.faudit}`].filter(Boolean).join(" · ");
  byId("protocol").textContent = `Protocol ${report.protocol.name}. ${report.protocol.text}`;
  byId("foot").textContent = `Every number of the rows is kept to ${report.digits} significant digits; the tables show fewer, and CSV files all of them. “${DASH}” is a number that is undefined or was not measured.`;
  byId("problems").hidden = !report.problems.length;
  fill(byId("problems"), ...report.problems.slice(0, 20).map((text) => make("p", {}, text)), report.problems.length > 20 ? make("p", {}, `and ${report.problems.length - 20} more`) : "");
  const counts = new Map();
  for (const one of report.methods) counts.set(one.headline, (counts.get(one.headline) || 0) + 1);
  fill(byId("counts"), ...[...counts].map(([word, count]) => make("span", {}, badge(word), ` ${count} ${count === 1 ? "method" : "methods"}`)), report.methods.length ? "" : "No runs yet.");
}
function drawMethods() {
  tables.methods ??= new Table(byId("methods-table"), {caption: "Methods over their seeds; mean ± standard deviation", columns: METHOD_COLUMNS, file: "methods.csv", cards: true});
  tables.methods.save = function () { download(this.file, csv([METHOD_CSV.map(({key}) => key), ...this.sorted().map((one) => METHOD_CSV.map(({value}) => value(one)))]), "text/csv"); };
  tables.methods.update(report.methods);
}
function drawRuns() {
  const runs = selected();
  tables.runs ??= new Table(byId("runs-table"), {caption: "Runs", columns: runColumns(), file: "runs.csv", tall: true});
  tables.runs.update(runs, runColumns());
  const count = Object.keys(report.runs).length;
  byId("matched").textContent = runs.length === count ? `All ${count} runs are shown.` : `${runs.length} of ${count} runs match the filters.`;
}
function drawFindings() {
  const chosen = new Set(selected().map((run) => run.name));
  tables.across ??= new Table(byId("across-table"), {caption: "Checks over the seeds of each method", columns: ACROSS_COLUMNS, file: "checks.csv", tall: true});
  tables.across.update(report.methods.filter((one) => one.runs.some((name) => chosen.has(name))).flatMap((one) => one.checks.map((check) => ({one, check}))));
  tables.findings ??= new Table(byId("findings-table"), {caption: "Every finding", columns: FINDING_COLUMNS, file: "findings.csv", tall: true});
  tables.findings.save = function () { download(this.file, csv([FINDING_CSV.map(({key}) => key), ...this.sorted().map((one) => FINDING_CSV.map(({value}) => value(one)))]), "text/csv"); };
  const rows = whole().filter((run) => chosen.has(run.name)).flatMap((run) => [...run.findings.map((finding) => ({run, finding})), ...run.labels.map((finding) => ({run, finding, label: true}))]);
  tables.findings.update(rows.filter(({finding}) => !findingFilter.status || finding.status === findingFilter.status));
  const words = [...new Set(rows.map(({finding}) => finding.status))];
  refill(byId("finding-controls"), choice("finding", [["", "all"], ...words.map((word) => [word, word])], findingFilter.status, (word) => { findingFilter.status = word; drawFindings(); }));
}
function drawClaims() {
  const host = byId("claims-tables");
  if (!report.claims.length) { fill(host, make("p", {class: "lead"}, prose("No paper’s runs are in this store. `faudit reproduce NAME` trains them."))); return; }
  fill(host);
  for (const paper of report.claims) {
    const place = make("div");
    host.append(make("h3", {}, `${paper.title} (${paper.reference})`), make("p", {class: "lead"}, (paper.rehearsal ? `A rehearsal (${paper.rehearsal}): it shows that every step runs, and says nothing about the claims. ` : "") +
      `${Object.entries(paper.counts).filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(", ")}. Computed from all runs of the store.`), place);
    new Table(place, {caption: `Claims of ${paper.paper}`, columns: CLAIM_COLUMNS, file: `claims-${paper.paper}.csv`, tall: true}).update(paper.rows);
  }
}
function list(title, entries) {
  return make("div", {}, make("h3", {}, title), make("dl", {}, ...entries.flatMap(([name, found]) => [make("dt", {}, name), make("dd", {}, found instanceof Node ? found : setting(found))])));
}
function showRun(name, jump = false) {
  shownRun = name in report.runs ? name : Object.keys(report.runs)[0] || "";
  const run = report.runs[shownRun];
  const names = Object.keys(report.runs);
  refill(byId("run-controls"), choice("run", names.map((one) => [one, one]), shownRun, (one) => showRun(one)));
  fill(byId("run-downloads"));
  if (!run) { fill(byId("run-details"), make("p", {class: "lead"}, "No runs yet.")); return; }
  if (run.verdict === "damaged") { fill(byId("run-details"), badge("damaged"), make("p", {}, run.sentence)); } else {
    const flat = ([key, found]) => [key, found !== null && typeof found === "object" && !Array.isArray(found) ? JSON.stringify(found) : Array.isArray(found) && found.some((one) => typeof one === "object") ? JSON.stringify(found) : found === null ? DASH : found];
    fill(byId("run-details"),
      make("p", {}, badge(run.headline), " ", prose(`${run.sentence} ${run.remarks}`)),
      make("p", {}, make("code", {}, run.command)),
      make("div", {class: "columns"},
        list("Outcome", [["run", run.name], ["method", method(run).name], ["status", run.status], ["epochs", `${exact(run.last.epoch)} of ${run.config.epochs}`], ["time", duration(run.last.seconds)], ["peak memory", bytes(run.outcome.peak_bytes)],
          ...Object.entries(run.outcome).filter(([key]) => !["seconds", "epochs", "peak_bytes"].includes(key)).map(flat)]),
        list("Environment", Object.entries(run.environment).map(flat)),
        list("Settings", Object.entries(run.config).map(flat))),
      run.measured_later.length ? make("p", {class: "lead"}, `Measured by an audit on the checkpoint, not during training: ${run.measured_later.join(", ")}.`) : "");
    fill(byId("run-downloads"), downloadButton("CSV of its rows", () => rowsCsv(run.name)), downloadButton("Settings as JSON", () => download(`${run.name}.json`, JSON.stringify({config: run.config, environment: run.environment, outcome: run.outcome}, null, 1), "application/json")));
  }
  if (jump) { byId("run").scrollIntoView(); byId("run").focus({preventScroll: true}); }
}
function rowsCsv(name) {
  const own = series[name], heads = [], columns = [];
  for (const [entry, column] of Object.entries(own)) {
    if (isScalar(entry)) { heads.push(entry); columns.push(column); } else column.forEach((one, place) => { heads.push(`${entry}[${place}]`); columns.push(one); });
  }
  download(`${name}.csv`, csv([heads, ...own.epoch.map((_, row) => columns.map((column) => column[row]))]), "text/csv");
}
