// Tables: sorted by any column, downloaded as CSV, drawn in parts so that a thousand lines stay quick.

const FIRST = 60;  // lines drawn at once; the rest follows on request

// columns: {key, title, num, value(row) for sorting and CSV, show(row) text or node, class}
class Table {
  constructor(host, {caption, columns, file, tall = false, cards = false}) {
    Object.assign(this, {host, caption, columns, file, rows: [], all: false, sort: null});
    if (cards) host.classList.add("cards");
    this.head = make("tr");
    this.body = make("tbody");
    this.label = make("caption");
    const table = make("table", {}, this.label, make("thead", {}, this.head), this.body);
    this.more = make("button", {type: "button", onclick: () => { this.all = true; this.draw(); }});
    this.foot = make("p", {class: "downloads"}, downloadButton("CSV of this table", () => this.save()), this.more);
    fill(host, make("div", {class: tall ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": caption}, table), this.foot);
  }
  update(rows, columns = this.columns) {
    this.rows = rows;
    this.columns = columns;
    this.draw();
  }
  sorted() {
    if (!this.sort) return this.rows;
    const column = this.columns.find((one) => one.key === this.sort.key);
    if (!column) return this.rows;
    const turn = this.sort.down ? -1 : 1;
    const keyed = this.rows.map((row, place) => [sortKey(column.value(row)), place, row]);
    keyed.sort(([a, i], [b, j]) => a[0] - b[0] || turn * (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0) || i - j);
    return keyed.map(([, , row]) => row);
  }
  draw() {
    const held = this.head.contains(document.activeElement) ? [...this.head.querySelectorAll("button")].indexOf(document.activeElement) : -1;
    fill(this.head, ...this.columns.map((column) => make("th", {scope: "col", class: column.num ? "num" : "", "aria-sort": this.order(column)},
      make("button", {type: "button", title: column.help, onclick: () => this.turn(column)}, column.title))));
    if (held >= 0) this.head.querySelectorAll("button")[held]?.focus();
    const rows = this.sorted();
    const shown = this.all ? rows : rows.slice(0, FIRST);
    this.label.textContent = `${this.caption} (${shown.length === rows.length ? rows.length : `the first ${shown.length} of ${rows.length}`})`;
    fill(this.body, ...shown.map((row) => make("tr", {}, ...this.columns.map((column, place) => {
      const shape = [column.num ? "num" : "", column.class || ""].join(" ").trim();
      const cell = make("span", {class: "cell"}, column.show ? column.show(row) : exact(column.value(row)));
      return place ? make("td", {class: shape, "data-title": column.title}, cell) : make("th", {scope: "row", class: shape}, cell);
    }))));
    this.more.hidden = shown.length === rows.length;
    this.more.textContent = `Show all ${rows.length}`;
    this.host.hidden = !rows.length && !this.columns.length;
  }
  order(column) {
    if (!this.sort || this.sort.key !== column.key) return "none";
    return this.sort.down ? "descending" : "ascending";
  }
  turn(column) {
    const same = this.sort && this.sort.key === column.key;
    // Numbers are first sorted with the largest on top, because that is what a reader looks for.
    this.sort = {key: column.key, down: same ? !this.sort.down : Boolean(column.num)};
    this.draw();
  }
  save() {
    download(this.file, csv([this.columns.map((column) => column.key), ...this.sorted().map((row) => this.columns.map((column) => column.value(row)))]), "text/csv");
  }
}

// [group, key]: values first, then numbers that overflowed as infinite, then what is missing, whatever the direction.
function sortKey(value) {
  if (value === null || value === undefined || value === "") return [1, 0];
  const found = Array.isArray(value) ? value[0] : value;
  if (isNumber(found)) return [0, found];
  const parsed = number(found);
  if (!Number.isNaN(parsed)) return [0, parsed];
  if (found === "nan") return [1, 0];
  return typeof found === "boolean" ? [0, Number(found)] : [0.5, String(found)];
}
