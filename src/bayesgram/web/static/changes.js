// What rose and fell from one release to another, the surest first; the server compares.

import { keep } from "./address.js";
import { ask, digits, el, find, fine, inList, options, probability, trouble, whenBack } from "./dom.js";

const NOTHING = { summary: "", notes: [], tables: {} };
const ENDS = { from: "changes-first", to: "changes-second" };
let asked = 0;
let releases = [];

export function begin(about, values) {
  ({ releases } = about);
  const names = releases.map((release, at) => [at, inList(release)]);
  for (const id of Object.values(ENDS)) {
    options(find(id), names);
    find(id).addEventListener("change", compare);
  }
  find("changes-form").hidden = names.length < 2;
  find("changes-form").addEventListener("submit", (event) => event.preventDefault());
  restore(values);
}

export function restore(values) {
  const usual = { from: 0, to: releases.length - 1 };
  for (const [end, id] of Object.entries(ENDS)) {
    const at = releases.findIndex((release) => release.name === values.get(end));
    find(id).value = at < 0 ? usual[end] : at;
  }
  if (releases.length > 1) compare();
  else draw({ ...NOTHING, summary: "There is one release here; start the page with two or more to see what changed." });
}

const chosen = (end) => find(ENDS[end]).value;

export function remember() {
  if (releases.length < 2) return;
  keep("changes", Object.fromEntries(Object.keys(ENDS).map((end) => [end, releases[Number(chosen(end))].name])));
}

async function compare() {
  const mine = ++asked;
  remember();
  if (chosen("from") === chosen("to")) {
    draw({ ...NOTHING, summary: "Choose two releases that differ." });
    fine("changes");
    return;
  }
  const wanted = new URLSearchParams({ first: chosen("from"), second: chosen("to") });
  find("changes-told").textContent = "Comparing …";
  try {
    const answer = await ask(`api/changes?${wanted}`);
    if (mine !== asked) return;
    draw(answer);
    fine("changes");
  } catch (error) {
    if (mine !== asked) return;
    draw(NOTHING);
    trouble(error, "changes");
    whenBack(error, () => { if (mine === asked) compare(); });
  }
}

function draw({ summary, how_to_read, notes, tables }) {
  const shown = Object.entries(tables).filter(([, rows]) => rows.length);
  find("changes-told").textContent = summary;
  find("changes-read").textContent = shown.length ? how_to_read : "";
  find("changes-notes").replaceChildren(...notes.map((note) => el("p", { class: "dim" }, note)));
  find("changes-tables").replaceChildren(...shown.map(table));
}

const table = ([title, rows]) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
  el("table", {}, el("caption", {}, `${title}, the surest first`), el("thead", {}, heading()),
    el("tbody", {}, rows.map(line))));

const heading = () => el("tr", {}, ["n-gram", "change", "before", "after", "false discovery rate"].map((name) =>
  el("th", { scope: "col" }, name)));

const line = (row) => el("tr", {}, el("td", {}, el("bdi", {}, row.ngram)), el("td", { class: "change" }, parted(row)),
  el("td", {}, probability(row.before)), el("td", {}, probability(row.after)), el("td", {}, digits(row.fdr, 2)));

// Broken, where there is little room, only before the interval.
const parted = ({ change }) => change.split(/ (?=\()/).flatMap((part, at) =>
  [...(at ? [" "] : []), el("span", { class: "label" }, part)]);
