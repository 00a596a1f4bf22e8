// What rose and fell from one release to another, the surest first; the server compares.

import { ask, digits, el, find, fine, options, probability, trouble } from "./dom.js";

let asked = 0;

export function begin(about) {
  const names = about.releases.map((release, at) => [at, `${release.name} · ${release.claim}`]);
  options(find("changes-first"), names);
  options(find("changes-second"), names);
  find("changes-form").hidden = names.length < 2;
  find("changes-form").addEventListener("submit", (event) => event.preventDefault());
  if (names.length < 2) {
    find("changes-told").textContent = "There is one release here; start the page with two or more to see what changed.";
    return;
  }
  find("changes-second").value = names.length - 1;
  for (const id of ["changes-first", "changes-second"]) find(id).addEventListener("change", compare);
  compare();
}

async function compare() {
  const mine = ++asked;
  if (find("changes-first").value === find("changes-second").value) {
    draw({ told: "Choose two releases that differ.", notes: [], tables: {} });
    return;
  }
  const wanted = new URLSearchParams({ first: find("changes-first").value, second: find("changes-second").value });
  find("changes-told").textContent = "Comparing …";
  try {
    const answer = await ask(`api/changes?${wanted}`);
    if (mine === asked) { draw(answer); fine(); }
  } catch (error) {
    if (mine === asked) { draw({ told: "", notes: [], tables: {} }); trouble(error); }
  }
}

function draw({ told, notes, tables }) {
  find("changes-told").textContent = told;
  find("changes-notes").replaceChildren(...notes.map((note) => el("p", { class: "dim" }, note)));
  find("changes-tables").replaceChildren(...Object.entries(tables).filter(([, rows]) => rows.length).map(table));
}

const table = ([title, rows]) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
  el("table", {}, el("caption", {}, `${title}, the surest first`), el("thead", {}, heading()),
    el("tbody", {}, rows.map(line))));

const heading = () => el("tr", {}, ["n-gram", "before", "after", "change", "false discovery rate"].map((name) =>
  el("th", { scope: "col" }, name)));

const line = (row) => el("tr", {}, el("td", {}, el("bdi", {}, row.ngram)), el("td", {}, probability(row.before)),
  el("td", {}, probability(row.after)), el("td", {}, row.change), el("td", {}, digits(row.fdr, 2)));
