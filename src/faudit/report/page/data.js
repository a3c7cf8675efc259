// The data of the page: runs, methods and series; which runs the filters select; and changes from a live server.

const report = JSON.parse(byId("data").textContent);
let series = null;  // run → entry → columns; null until it is unpacked
const selection = {text: "", facets: {}};

async function unpack() {
  const packed = Uint8Array.from(atob(byId("series").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  series = await new Response(stream).json();
}

const whole = () => Object.values(report.runs).filter((run) => run.verdict !== "damaged");
let methodOf = {};
function index() {
  methodOf = {};
  for (const method of report.methods) for (const name of method.runs) methodOf[name] = method;
}
const method = (run) => methodOf[run.name];

const COMPARE = {
  "=": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => Number(a) < Number(b), ">": (a, b) => Number(a) > Number(b),
  "<=": (a, b) => Number(a) <= Number(b), ">=": (a, b) => Number(a) >= Number(b),
};
const OF_RUN = {verdict: (run) => run.verdict, status: (run) => run.status, run: (run) => run.name};

function value(run, key) {  // a setting, the verdict or status, or one of the last numbers
  if (key in OF_RUN) return OF_RUN[key](run);
  if (run.config && key in run.config) return setting(run.config[key]);
  const found = run.last && run.last[key];
  return found === undefined || found === null ? undefined : String(found);
}
function holds(run, term) {
  const parts = /^([\w-]+)(!=|<=|>=|=|<|>)(.+)$/.exec(term);
  if (!parts) return `${run.name} ${(methodOf[run.name] || {name: ""}).name} ${run.verdict} ${run.status}`.toLowerCase().includes(term.toLowerCase());
  const [, key, sign, wanted] = parts;
  const found = value(run, key);
  if (found === undefined) return sign === "!=";
  const equal = Number(found) === Number(wanted) && wanted.trim() !== "" ? true : found.toLowerCase() === wanted.toLowerCase();
  if (sign === "=") return equal;
  return sign === "!=" ? !equal : COMPARE[sign](found, wanted);
}
function selected() {
  const terms = selection.text.split(/\s+/).filter(Boolean);
  const facets = Object.entries(selection.facets).filter(([, wanted]) => wanted !== "");
  return Object.values(report.runs).filter((run) =>
    terms.every((term) => holds(run, term)) && facets.every(([key, wanted]) => value(run, key) === wanted));
}

function extend(own, {from, series: more}) {  // adds the rows of an answer to the columns of a run
  const add = (column, found) => { column.length = from; for (const one of found) column.push(one); };
  for (const [entry, columns] of Object.entries(more)) {
    if (isScalar(entry)) add(own[entry], columns);
    else columns.forEach((column, place) => add(own[entry][place], column));
  }
}

// A live page asks for what changed since its stamp. An answer without changes is empty and costs the server nothing.
// It tells when the server looks at the store again: the page asks then, and not before.
async function poll(onchange, onstate) {
  for (let wait = 1000; ; ) {
    await new Promise((resume) => setTimeout(resume, document.hidden ? 5000 : wait));
    wait = 2000;
    try {
      const answer = await fetch(`data.json?since=${encodeURIComponent(report.live)}`, {headers: {"If-None-Match": `"${report.live}"`}, cache: "no-store"});
      if (answer.headers.has("Next-Look")) wait = Math.max(200, 1000 * Number(answer.headers.get("Next-Look")) + 20);
      if (answer.status === 200) {
        const news = await answer.json();
        if (news.whole) { report.runs = {}; series = {}; }
        for (const name of news.gone) { delete report.runs[name]; delete series[name]; }
        Object.assign(report.runs, news.runs);
        Object.assign(series, news.series);
        for (const [name, more] of Object.entries(news.more)) extend(series[name], more);
        report.runs = Object.fromEntries(news.order.filter((name) => name in report.runs).map((name) => [name, report.runs[name]]));
        Object.assign(report, news.document, {live: news.stamp});
        index();
        onchange(Object.keys(news.runs));
      }
      onstate(answer.status === 200 || answer.status === 304);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;  // the request failed: the server has stopped
      onstate(false);
    }
  }
}
