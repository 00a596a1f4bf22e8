// Look through the n-grams of a release, a page at a time; the server sorts and searches.

import { keep, openRelease, placeOf } from "./address.js";
import { ask, claimed, digits, el, find, fine, inList, later, number, options, probability, svg, trouble,
  whenBack } from "./dom.js";

const SIZE = 25;
const LAST_PAGE = 10_000_000; // that the server looks for
const SORTS = {
  moved: "largest difference from public text",
  lifted: "more frequent than in public text",
  lowered: "less frequent than in public text",
  probability: "probability in the release",
  public: "probability in public text",
  sure: "narrowest interval",
  alphabet: "alphabet",
  discovered: "discovered n-grams only",
};
// What a click on a heading sorts by, which way that goes, and what a second click makes of it.
const HEADINGS = {
  "n-gram": { sort: "alphabet", way: "ascending" },
  "public text": { sort: "public", way: "descending" },
  release: { sort: "probability", way: "descending" },
  change: { sort: "lifted", way: "descending", other: "lowered" },
  "95% interval": { sort: "sure", way: "ascending" },
};
const KINDS = ["csv", "json", "parquet"];
const OPPOSITE = { ascending: "descending", descending: "ascending" };

let catalogue = { releases: [], defaults: {} };
let page = 1;
let reverse = false;
let asked = 0;
let shown = { rows: [], columns: [] };

export function begin(about, values) {
  catalogue = about;
  options(find("browse-release"), about.releases.map((release, at) => [at, inList(release)]));
  find("browse-form").addEventListener("submit", (event) => event.preventDefault());
  find("browse-release").addEventListener("change", () => { openRelease(release().name); fit(); first(); });
  find("browse-order").addEventListener("change", first);
  find("browse-sort").addEventListener("change", () => { reverse = false; first(); });
  find("browse-text").addEventListener("input", later(150, first));
  find("previous").addEventListener("click", () => leaf(page - 1));
  find("next").addEventListener("click", () => leaf(page + 1));
  find("copy").addEventListener("click", copy);
  restore(values);
}

export function restore(values) {
  find("browse-release").value = placeOf(values.get("release"), catalogue);
  fit();
  choose("browse-order", values.get("order"));
  choose("browse-sort", values.get("sort"));
  reverse = values.has("reverse");
  find("browse-text").value = values.get("text") ?? "";
  openRelease(release().name);
  turn(Math.min(LAST_PAGE, Math.max(1, Math.floor(Number(values.get("page"))) || 1)));
}

function choose(id, value) {
  const select = find(id);
  select.value = [...select.options].some((option) => option.value === value) ? value : select.options[0].value;
}

export const remember = () => keep("browse", { release: release().name, order: find("browse-order").value,
  sort: find("browse-sort").value, reverse: reverse ? "yes" : "", text: find("browse-text").value,
  page: page > 1 ? page : "" });

const release = () => catalogue.releases[Number(find("browse-release").value)];

function fit() {
  find("browse-claim").replaceChildren(...claimed(release()));
  const orders = [...release().orders].reverse();
  options(find("browse-order"), orders.map((order) => [order, words(order)]));
  find("order-field").hidden = release().orders.length === 1;
  options(find("browse-sort"), Object.entries(SORTS).filter(([sort]) => release().sorts.includes(sort)));
}

const words = (order) => (Number(order) === 1 ? "1 word" : `${order} words`);

const first = () => turn(1);

// The rows of another page, from the first on.
async function leaf(to) {
  await turn(to);
  const top = find("ngrams").getBoundingClientRect().top;
  if (top < 0) window.scrollBy(0, top - 8);
}

const wanted = () => ({ release: find("browse-release").value, order: find("browse-order").value,
  sort: find("browse-sort").value, text: find("browse-text").value, reverse });

async function turn(to) {
  const mine = ++asked;
  try {
    const answer = await ask(`api/ngrams?${new URLSearchParams({ ...wanted(), page: to, size: SIZE })}`);
    if (mine !== asked) return;
    const last = Math.max(1, Math.ceil(answer.total / SIZE));
    if (to > last) { turn(last); return; } // an address that is older than the release
    page = to;
    draw(answer);
    remember();
    fine("browse");
  } catch (error) {
    if (mine !== asked) return;
    const stopped = ["previous", "next"].filter((id) => find(id).disabled);
    draw({ total: 0, rows: [] }, ""); // what was shown answers another question
    for (const id of ["previous", "next"]) find(id).disabled = stopped.includes(id); // the others try again
    trouble(error, "browse");
    whenBack(error, () => { if (mine === asked) turn(to); });
  }
}

function draw({ total, rows }, empty = nothing()) {
  const pages = Math.max(1, Math.ceil(total / SIZE));
  const from = (page - 1) * SIZE;
  find("browse-caption").textContent = total ? range(from, rows.length, total) : empty;
  find("where").textContent = total ? `page ${number(page)} of ${number(pages)}` : "";
  find("previous").disabled = !total || page <= 1;
  find("next").disabled = !total || page >= pages;
  const known = { public: rows.some((row) => row.before !== null), sure: rows.some((row) => row.interval !== null) };
  const axis = scale(rows);
  const table = find("ngrams");
  const focused = table.tHead.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  table.tHead.replaceChildren(heading(known, rows.length > 0));
  if (focused) table.tHead.querySelector(`[data-name="${focused}"]`)?.focus(); // it was drawn anew
  table.tBodies[0].replaceChildren(...rows.map((row) => line(row, known, axis)));
  find("browse-legend").textContent = total ? legend(known, rows.some((row) => row.discovered)) : "";
  shown = { rows, known };
  offer(total);
}

function range(from, here, total) {
  const which = here === 1 ? number(from + 1) : `${number(from + 1)}–${number(from + here)}`;
  return total === 1 ? "1 n-gram" : `${which} of ${number(total)} n-grams`;
}

function nothing() {
  const text = find("browse-text").value, which = `of ${words(find("browse-order").value)} in ${release().name}`;
  const kind = find("browse-sort").value === "discovered" ? "discovered n-gram" : "n-gram";
  return text ? `No ${kind} ${which} contains “${text}”.` : `There is no ${kind} ${which}.`;
}

function legend(known, discovered) {
  const parts = [`${known.public ? "○ is public text. " : ""}● is the release. The scale is logarithmic.`];
  if (known.sure) parts.push("The line is the 95% interval for noise and clipping. An arrow means that a value or an interval continues, or is 0.");
  if (known.public && known.sure) parts.push("A change is bold where public text lies outside the interval; otherwise, noise may explain it.");
  if (!known.public) parts.push("To compare with public text, start this page with --vocab.");
  if (discovered) parts.push("Discovered n-grams are not in public text; their ○ is estimated from their words.");
  return parts.join(" ");
}

function heading(known, any) {
  const names = [["n-gram", ""], known.public && ["public text", "less"], ["release", ""],
    known.public && ["change", ""], known.sure && ["95% interval", "less"]];
  if (!any) return el("tr");
  return el("tr", {}, names.filter(Boolean).map(([name, kind]) => head(name, kind)),
    el("th", { scope: "col", class: "drawn" }, el("span", { class: "unseen" }, "drawing")));
}

function head(name, kind) {
  const { sort, way, other } = HEADINGS[name] ?? {};
  if (!release().sorts.includes(sort)) return el("th", { scope: "col", class: kind }, name);
  const now = find("browse-sort").value, turned = now === other || (now === sort && reverse);
  const sorted = now === sort || now === other ? (turned ? OPPOSITE[way] : way) : null;
  const again = () => {
    const before = find("browse-sort").value; // which may have changed since this was drawn
    choose("browse-sort", other && before === sort ? other : sort);
    reverse = !other && before === sort && !reverse;
    first();
  };
  const arrow = { ascending: " ▲", descending: " ▼" }[sorted] ?? "";
  return el("th", { scope: "col", class: kind, "aria-sort": sorted },
    el("button", { type: "button", class: "sort", "data-name": name, onclick: again }, name,
      el("span", { "aria-hidden": "true" }, arrow)));
}

function line(row, known, axis) {
  const sure = row.interval ? row.interval.map(probability).join(" to ") : "–";
  const mark = row.discovered ? [" ", el("span", { class: "discovered" }, "discovered")] : null;
  return el("tr", {}, el("td", {}, el("bdi", {}, row.ngram), mark),
    known.public ? el("td", { class: "less" }, row.before === null ? "–" : probability(row.before)) : null,
    el("td", {}, probability(row.after)),
    known.public ? el("td", { class: row.clear ? "clear" : "" }, factor(row)) : null,
    known.sure ? el("td", { class: "less" }, sure) : null,
    el("td", { class: "drawn" }, drawing(row, axis)));
}

function factor({ before, after }) {
  if (before === null || before === after) return before ? "× 1" : "–";
  if (!before || !after) return before ? "to 0" : "from 0";
  const times = after / before;
  return times >= 1 ? `× ${number(Number(digits(times)))}` : `÷ ${number(Number(digits(1 / times)))}`;
}

// One logarithmic axis for all rows of a page, in parts of a hundred. Values that are far from all others do not
// stretch it: they are arrows at its end.
function scale(rows) {
  const known = rows.filter((row) => row.interval);
  const ends = known.flatMap(({ interval, after }) => [Math.max(interval[0], after / 20), interval[1]]);
  const values = [...rows.flatMap((row) => [row.after, row.before]), ...ends].filter((value) => value > 0);
  if (!values.length) return { at: () => 0, has: () => true };
  const [low, high] = inner(values.map(Math.log).sort((a, b) => a - b));
  const inside = (value) => Math.min(high, Math.max(low, Math.log(Math.max(value, 1e-300))));
  return { at: (value) => 4 + (92 * (inside(value) - low)) / (high - low || 1),
    has: (value) => { const at = Math.log(Math.max(value, 1e-300)); return at >= low - 1e-9 && at <= high + 1e-9; } };
}

// The ends of sorted logarithms without outliers, by the rule of bayesgram.charts.without_outliers.
function inner(logs) {
  const last = logs.length - outliers(logs);
  const first = outliers(logs.slice(0, last).map((value) => -value).reverse(), logs.length);
  return [logs[first], logs[last - 1]];
}

// How many of the largest are far from all others: at most one in ten.
function outliers(logs, all = logs.length) {
  for (let count = Math.ceil(all / 10); count > 0; count -= 1) {
    const inside = logs.slice(0, -count), end = inside.at(-1);
    if (inside.length > 2 && logs.at(-count) - end > Math.max(0.5 * (end - inside[0]), Math.log(8))) return count;
  }
  return 0;
}

function drawing(row, axis) {
  const x = (value) => `${axis.at(value)}%`;
  // An arrow: a value or an interval continues beyond the scale, on which 0 has no place.
  const beyond = (value) => svg("svg", { class: "beyond", x: x(value) },
    svg("path", { class: "whisker", d: axis.at(value) < 50 ? "M5 5 L0 10 L5 15" : "M-5 5 L0 10 L-5 15" }));
  const stroke = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
  const parts = [stroke("grid", "4%", 10, "96%", 10)];
  if (row.before !== null) parts.push(stroke("link", x(row.before), 10, x(row.after), 10));
  if (row.interval) {
    const [low, high] = row.interval;
    parts.push(stroke("whisker", x(low), 10, x(high), 10));
    for (const end of [low, high]) parts.push(axis.has(end) ? stroke("whisker", x(end), 6, x(end), 14) : beyond(end));
  }
  const dot = (kind, value, r) => (axis.has(value) ? svg("circle", { class: kind, cx: x(value), cy: 10, r })
    : beyond(value));
  if (row.before !== null) parts.push(dot("public", row.before, 3.6));
  parts.push(dot(`dot ${release().guarantee}`, row.after, 4));
  return svg("svg", { height: 20, "aria-hidden": "true" }, parts);
}


// The rows of this page for the clipboard, all of them as files.
function offer(total) {
  find("take").hidden = !total;
  find("taken").textContent = "";
  find("copy").textContent = shown.rows.length === 1 ? "Copy this row" : `Copy these ${shown.rows.length} rows`;
  find("all-rows").textContent = `Download all ${number(total)}:`;
  for (const kind of KINDS)
    find(`download-${kind}`).href = `api/download?${new URLSearchParams({ ...wanted(), kind })}`;
}

async function copy() {
  const { rows, known } = shown;
  const ends = (row) => (row.interval ? row.interval : ["", ""]);
  const lines = [["ngram", ...(known.public ? ["public"] : []), "probability", ...(known.sure ? ["low", "high"] : [])],
    ...rows.map((row) => [row.ngram, ...(known.public ? [row.before ?? ""] : []), row.after,
      ...(known.sure ? ends(row) : [])])];
  const done = await copied(lines.map((cells) => cells.join("\t")).join("\n"));
  find("taken").textContent = done ? `Copied ${rows.length === 1 ? "1 row" : `${rows.length} rows`}. You can paste them as a table.`
    : "The browser does not allow this page to copy. Download the rows instead.";
}

// Without TLS, beyond this machine, browsers have the old way alone.
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const area = el("textarea", { class: "unseen" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
