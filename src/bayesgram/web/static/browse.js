// Look through the n-grams of a release, a page at a time; the server sorts and searches.

import { ask, digits, el, find, fine, later, number, options, probability, svg, trouble } from "./dom.js";

const SIZE = 25;
const SORTS = {
  moved: "what moved most",
  lifted: "lifted most by private text",
  lowered: "lowered most by private text",
  probability: "probability",
  alphabet: "alphabet",
  discovered: "discovered only, by probability",
};

let releases = [];
let page = 1;
let asked = 0;

export function begin(about) {
  releases = about.releases;
  options(find("browse-release"), releases.map((release, at) => [at, `${release.name} · ${release.claim}`]));
  fit();
  find("browse-form").addEventListener("submit", (event) => event.preventDefault());
  find("browse-release").addEventListener("change", () => { fit(); first(); });
  find("browse-order").addEventListener("change", first);
  find("browse-sort").addEventListener("change", first);
  find("browse-text").addEventListener("input", later(150, first));
  find("earlier").addEventListener("click", () => turn(page - 1));
  find("later").addEventListener("click", () => turn(page + 1));
  first();
}

const release = () => releases[Number(find("browse-release").value)];

function fit() {
  const orders = [...release().orders].reverse();
  options(find("browse-order"), orders.map((order) => [order, order === 1 ? "1 word" : `${order} words`]));
  find("order-field").hidden = release().orders.length === 1;
  options(find("browse-sort"), release().sorts.map((sort) => [sort, SORTS[sort]]));
}

const first = () => turn(1);

async function turn(to) {
  const mine = ++asked;
  const wanted = new URLSearchParams({ release: find("browse-release").value, order: find("browse-order").value,
    sort: find("browse-sort").value, text: find("browse-text").value, page: to, size: SIZE });
  try {
    const answer = await ask(`api/ngrams?${wanted}`);
    if (mine !== asked) return;
    page = to;
    draw(answer);
    fine();
  } catch (error) {
    if (mine === asked) trouble(error);
  }
}

function draw({ total, rows }) {
  const pages = Math.max(1, Math.ceil(total / SIZE));
  const from = (page - 1) * SIZE;
  const shown = `${number(from + 1)}–${number(from + rows.length)} of ${number(total)} n-grams`;
  const none = find("browse-text").value ? "No n-gram contains that." : "None of this length was discovered.";
  find("browse-caption").textContent = total ? shown : none;
  find("where").textContent = `page ${number(page)} of ${number(pages)}`;
  find("earlier").disabled = page <= 1;
  find("later").disabled = page >= pages;
  const known = { public: rows.some((row) => row.before !== null), sure: rows.some((row) => row.interval !== null) };
  const axis = scale(rows);
  const table = find("ngrams");
  table.tHead.replaceChildren(heading(known, rows.length > 0));
  table.tBodies[0].replaceChildren(...rows.map((row) => line(row, known, axis)));
  find("browse-legend").textContent = legend(known, rows.some((row) => row.discovered));
}

function legend(known, discovered) {
  const parts = [`${known.public ? "○ public text, " : ""}● the release, on a logarithmic scale.`];
  if (known.sure) parts.push("The line is where it lies with about 95%, given noise and clipping.");
  if (known.public && known.sure) parts.push("Clear: public text's number lies outside.");
  if (!known.public) parts.push("Start with --vocab to compare with public text.");
  if (discovered) parts.push("Discovered: public text lacks it; its ○ is what public text makes likely.");
  return parts.join(" ");
}

function heading(known, any) {
  const names = [["n-gram", ""], known.public && ["public", "less"], ["released", ""], known.public && ["change", ""],
    known.sure && ["interval", "less"], known.public && known.sure && ["clear", "less"]];
  if (!any) return el("tr");
  return el("tr", {}, names.filter(Boolean).map(([name, kind]) => el("th", { scope: "col", class: kind }, name)),
    el("th", { scope: "col" }, el("span", { class: "unseen" }, "drawing")));
}

function line(row, known, axis) {
  const times = row.before > 0 ? row.after / row.before : null;
  const way = times === null || row.clear === false ? "" : times > 1 ? "up" : "down";
  const sure = row.interval ? row.interval.map(probability).join(" to ") : "–";
  const mark = row.discovered ? [" ", el("span", { class: "discovered" }, "discovered")] : null;
  return el("tr", {}, el("td", {}, el("bdi", {}, row.ngram), mark),
    known.public ? el("td", { class: "less" }, probability(row.before)) : null,
    el("td", {}, probability(row.after)),
    known.public ? el("td", { class: way }, factor(times)) : null,
    known.sure ? el("td", { class: "less" }, sure) : null,
    known.public && known.sure ? el("td", { class: "less" }, row.clear ? "yes" : "no") : null,
    el("td", {}, drawing(row, axis)));
}

function factor(times) {
  if (!times) return "–";
  return times >= 1 ? `× ${digits(times)}` : `÷ ${digits(1 / times)}`;
}

// One logarithmic axis for all rows of a page.
function scale(rows) {
  const known = rows.filter((row) => row.interval);
  const ends = known.flatMap(({ interval, after }) => [Math.max(interval[0], after / 20), interval[1]]);
  const values = [...rows.flatMap((row) => [row.after, row.before]), ...ends].filter((value) => value > 0);
  if (!values.length) return () => 0;
  const low = Math.log(Math.min(...values)), high = Math.log(Math.max(...values));
  const inside = (value) => Math.min(high, Math.max(low, Math.log(Math.max(value, 1e-300))));
  return (value) => 6 + (148 * (inside(value) - low)) / (high - low || 1);
}

function drawing(row, axis) {
  const stroke = (kind, [x1, y1, x2, y2]) => svg("line", { class: kind, x1, y1, x2, y2 });
  const parts = [stroke("grid", [6, 10, 154, 10])];
  if (row.before !== null) parts.push(stroke("link", [axis(row.before), 10, axis(row.after), 10]));
  if (row.interval) {
    const [low, high] = row.interval.map(axis);
    parts.push(...[[low, 10, high, 10], [low, 6, low, 14], [high, 6, high, 14]].map((ends) => stroke("whisker", ends)));
  }
  if (row.before !== null) parts.push(svg("circle", { class: "hollow", cx: axis(row.before), cy: 10, r: 3.6 }));
  const colour = row.before === null || row.after >= row.before ? "good" : "bad";
  parts.push(svg("circle", { class: colour, cx: axis(row.after), cy: 10, r: 4 }));
  return svg("svg", { viewBox: "0 0 160 20", "aria-hidden": "true" }, parts);
}
