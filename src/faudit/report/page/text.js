"use strict";
// Numbers as text, elements, and downloads. Text of runs enters the page only through textContent.

const DASH = "–";

// A number of the data: null is undefined or not measured, text such as "inf" is a number that overflowed.
const isNumber = (value) => typeof value === "number";
const number = (value) => (isNumber(value) ? value : value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN);

function size(value) {  // three significant digits, as `faudit show` prints them
  if (value === null || value === undefined) return DASH;
  if (!isNumber(value)) return String(value);
  if (value === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(value)));
  const text = power < -4 || power >= 5 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  return text.replace("e+", "e").replace("-", "−");
}
const precise = (value) => (Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(report.digits - 1).replace("e+", "e") : String(Number(value.toPrecision(report.digits))));
const fixed = (value, places) =>
  value === null || value === undefined ? DASH : isNumber(value) ? value.toFixed(places).replace("-", "−") : String(value);
const share = (value) => fixed(value, 4);
const signed = (value) => (isNumber(value) && value >= 0 ? "+" : "") + fixed(value, 3);
const times = (value) => (value === null || value === undefined ? DASH : `${size(value)}×`);
const exact = (value) => (value === null || value === undefined ? DASH : String(value));
const withSpread = (found, form) => (found.mean === null ? DASH : form(found.mean) + (found.std === null ? "" : ` ± ${form(found.std).replace("+", "")}`));

function duration(seconds) {
  if (!isNumber(seconds)) return exact(seconds);
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
const bytes = (count) => (isNumber(count) ? `${(count / 2 ** 20).toFixed(0)} MiB` : DASH);

function setting(value) {
  if (value === undefined) return DASH;
  if (Array.isArray(value)) return value.length ? value.join(" ") : "none";
  return String(value);
}

// make("td", {class: "num"}, "text", node, …)
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
// Text in which `…` is code, and a flag such as --with-controls stays on one line.
const unbroken = (text) => text.split(/(--[a-z][a-z-]*)/).map((part, place) => (place % 2 ? make("span", {class: "flag"}, part) : part));
const prose = (text) => make("span", {}, ...String(text).split("`").flatMap((part, place) => (place % 2 ? [make("code", {}, part)] : unbroken(part))));
const byId = (id) => document.getElementById(id);
const fill = (element, ...children) => element.replaceChildren(...children);

// New controls in place of old ones; the focus stays at its place, so that a keyboard can go on.
function refill(form, ...children) {
  const controls = () => [...form.querySelectorAll("select, input, button")];
  const held = controls().indexOf(document.activeElement);
  fill(form, ...children);
  if (held >= 0) controls()[held]?.focus();
}

const BADGES = {
  "trustworthy": ["good", "✓"], "needs walk-back": ["bad", "✗"], "inconclusive": ["open", "?"],
  "passed": ["good", "✓"], "fired": ["bad", "✗"], "undecided": ["open", "?"], "invalid": ["open", "!"],
  "not measured": ["open", "?"], "not applicable": ["", "·"], "not audited": ["", "…"], "unfinished": ["", "…"],
  "damaged": ["bad", "!"], "failed": ["bad", "✗"], "done": ["good", "✓"], "running": ["open", "▸"], "stopped": ["", "‖"],
  "reproduced": ["good", "✓"], "deviates": ["bad", "✗"], "partial": ["open", "?"], "not run": ["", "·"], "rehearsed": ["", "·"],
};
function badge(word) {
  const [kind, sign] = BADGES[word.split(" (")[0]] || ["", "·"];
  return make("span", {class: `badge ${kind}`}, make("span", {"aria-hidden": "true"}, `${sign} `), word);
}

function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  const link = make("a", {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
function csv(lines) {
  // A spreadsheet computes a cell that begins with one of = + - @, so text that does is quoted with an apostrophe.
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    const text = Array.isArray(value) ? value.join(" ") : String(value);
    const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) && !/^-?inf$/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}
const downloadButton = (label, action) => make("button", {type: "button", onclick: action}, label);

function choice(label, options, chosen, onchange) {  // options: [[value, text], …]
  const select = make("select", {onchange: () => onchange(select.value)},
    ...options.map(([value, text]) => make("option", {value, ...(value === chosen ? {selected: true} : {})}, text)));
  return make("label", {}, label, select);
}
function tick(label, checked, onchange) {
  const box = make("input", {type: "checkbox", ...(checked ? {checked: true} : {}), onchange: () => onchange(box.checked)});
  return make("label", {class: "check"}, box, label);
}
