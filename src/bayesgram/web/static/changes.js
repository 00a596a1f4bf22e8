// What rose and fell from one release to another, the surest first; the server compares.

import { keep } from "./address.js";
import { ask, claimed, el, find, fine, inList, options, probability, rate, tableOf, trouble, whenBack } from "./dom.js";

const NOTHING = { summary: "", notes: [], tables: {} };
const ENDS = { from: "changes-first", to: "changes-second" };
const NO_PAIR = "Nothing to compare: start this page with two or more releases that keep their noisy measurements. Releases "
  + "made by posterior and gaussian keep them.";
let asked = 0;
let releases = [];
let comparable = []; // places of releases that keep their measurements
let usual = { from: 0, to: 1 };

export function begin(about, values) {
  ({ releases } = about);
  comparable = releases.flatMap((release, at) => (release.comparable ? [at] : []));
  const names = comparable.map((at) => [at, inList(releases[at])]);
  const left = releases.length - comparable.length;
  find("changes-left").textContent = left && comparable.length > 1
    ? `${left === 1 ? "1 release is" : `${left} releases are`} not listed: without noisy measurements, nobody can tell a change from noise.` : "";
  usual = { from: about.defaults.changed[0], to: about.defaults.changed[1] };
  for (const id of Object.values(ENDS)) {
    options(find(id), names);
    find(id).addEventListener("change", compare);
  }
  find("changes-form").hidden = names.length < 2;
  find("changes-form").addEventListener("submit", (event) => event.preventDefault());
  restore(values);
}

export function restore(values) {
  if (comparable.length < 2) { draw({ ...NOTHING, summary: NO_PAIR }); return; }
  for (const [end, id] of Object.entries(ENDS)) {
    const at = comparable.find((place) => releases[place].name === values.get(end));
    find(id).value = at ?? usual[end];
  }
  compare();
}

const chosen = (end) => find(ENDS[end]).value;

export function remember() {
  if (comparable.length < 2) return;
  keep("changes", Object.fromEntries(Object.keys(ENDS).map((end) => [end, releases[Number(chosen(end))].name])));
}

async function compare() {
  const mine = ++asked;
  remember();
  for (const end of Object.keys(ENDS))
    find(`changes-${end}-claim`).replaceChildren(...claimed(releases[Number(chosen(end))]));
  if (chosen("from") === chosen("to")) {
    draw({ ...NOTHING, summary: "Choose two different releases." });
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

function table([title, rows]) {
  const cells = (value) => rows.map(value);
  const drawn = tableOf(`${title}, the surest first`, [
    ["n-gram", cells((row) => ({ text: row.ngram, node: el("bdi", {}, row.ngram) }))],
    ["change", cells((row) => ({ text: row.change, node: el("span", {}, parted(row)) })), "change"],
    ["before", cells((row) => probability(row.before))],
    ["after", cells((row) => probability(row.after))],
    ["false discovery rate", cells((row) => rate(row.fdr)), "less"],
  ]);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, drawn);
}

// Broken, where there is little room, only before the interval.
const parted = ({ change }) => change.split(/ (?=\()/).flatMap((part, at) =>
  [...(at ? [" "] : []), el("span", { class: "label" }, part)]);
