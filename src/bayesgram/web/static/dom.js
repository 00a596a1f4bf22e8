// Building blocks: elements from text (never from markup), questions to the server, numbers for people.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Strings among the children become text nodes: whatever stands in them is shown, not read.
export const el = (tag, properties = {}, ...children) =>
  filled(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), properties, children);

export const badge = (guarantee) => el("span", { class: `badge ${guarantee}` }, guarantee);
// What is promised, and beside it, where that protects little: weak or worthless.
export const label = (item) => el("span", { class: "label" }, badge(item.guarantee),
  item.grade ? [" ", el("span", { class: "grade" }, item.grade)] : null);

// A release in a list, as short as it can be, so that nothing is cut off: its claim stands beside the list.
export const inList = ({ name, guarantee, grade }) =>
  (guarantee === "PROVED" && !grade ? name : `${name} (${[guarantee, grade].filter(Boolean).join(", ")})`);

// What a release claims, below the list that it was chosen from.
export const claimed = (release) => [label(release), ` ${release.claim.replace(/ \([A-Z]+(, [a-z]+)?\)$/, "")}`];

export function options(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
  if (pairs.some(([value]) => String(value) === before)) select.value = before;
}

// Ask the server; what it refuses is an Error with its words. Too fast: waits as long as it says, once.
export async function ask(path, body = undefined, signal = undefined) {
  for (let turn = 0; ; turn += 1) {
    const sent = body === undefined ? {} : posted(body);
    const answer = await fetch(path, { ...sent, signal, credentials: "same-origin" });
    const told = await answer.json().catch((error) => {
      if (error.name === "AbortError") throw error; // stopped while the answer came
      return { error: "The answer of the server can't be read." };
    });
    if (answer.ok && !told.error) return told;
    if (![429, 503].includes(answer.status) || turn >= 3) throw new Error(told.error ?? "The request failed.");
    await pause(1000 * Number(answer.headers.get("retry-after") ?? 1));
  }
}

const posted = (body) =>
  ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// Whether the server is gone, and not only unwilling.
export const isLost = (error) => error instanceof TypeError;

export const AGAIN = 3000; // milliseconds, after which a lost server is asked again

export const pause = (wait) => new Promise((go) => setTimeout(go, wait));

// What to do once a lost server may be back.
export async function whenBack(error, work) {
  if (!isLost(error)) return;
  await pause(AGAIN);
  work();
}

// What went wrong, said where the part of the page has its answers.
export function trouble(error, part = "") {
  if (error.name === "AbortError") return;
  const place = alertOf(part);
  place.textContent = isLost(error) ? "The server does not answer. Is `bayesgram serve` still running?" : error.message;
  place.hidden = false;
}

export const fine = (part = "") => { alertOf(part).hidden = true; };

const alertOf = (part) => find(part ? `${part}-trouble` : "trouble");

export const later = (wait, work) => {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), wait); };
};

export const number = (value) => value.toLocaleString("en");
export const digits = (value, count = 3) => String(Number(value.toPrecision(count)));

// In percent, with three digits and without an exponent, as the report writes probabilities: 0.0123%.
export function probability(value) {
  if (!value) return "0%";
  if (value < 1e-8) return "<0.000001%";
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(100 * value)));
  const text = (100 * value).toFixed(Math.min(decimals, 20));
  return `${text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text}%`;
}

// A false discovery rate; the digits of a tiny one mean nothing.
export const rate = (value) => (value < 1e-4 ? "<0.0001" : digits(value, 2));

// A table without the columns that say the same in every row; those become a sentence above it. Columns are
// [name, cells, class]; a cell is text, or {text, node}.
export function tableOf(caption, columns) {
  const text = (cell) => cell.text ?? cell;
  const rows = columns[0][1].length;
  const same = columns.filter(([, cells], at) => at && rows > 1 && new Set(cells.map(text)).size === 1);
  const shown = columns.filter((column) => !same.includes(column));
  const kind = ([, , given]) => given ?? "";
  const sameValues = same.filter(([, [cell]]) => text(cell) !== "–").map(([name, [cell]]) => `${name} ${text(cell)}`);
  const note = sameValues.length ? [el("p", { class: "dim" }, `The same in every row: ${sameValues.join(", ")}.`)] : [];
  const line = (at) => el("tr", {}, shown.map((column) =>
    el("td", { class: kind(column) }, column[1][at].node ?? text(column[1][at]))));
  return [...note, el("table", {}, caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, shown.map((column) => el("th", { scope: "col", class: kind(column) }, column[0])))),
    el("tbody", {}, Array.from({ length: rows }, (_, at) => line(at))))];
}

export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "<0.01%";
  return `${value >= 10 ? value.toFixed(1) : value.toFixed(2)}%`;
}

export function share(part) {
  if ((part > 0 && part < 0.005) || (part >= 0.995 && part < 1)) return part < 0.5 ? "<1%" : ">99%";
  return `${(100 * part).toFixed(0)}%`;
}
