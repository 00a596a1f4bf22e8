// The privacy card in plain words, and what each ε bought.

import { keep, placeOf } from "./address.js";
import { ask, el, find, fine, inList, label, number, options, probability, trouble,
  whenBack } from "./dom.js";
import { readAloud, showPicture, clearPicture } from "./charts.js";

const CAPTION = "Green is PROVED, orange EMPIRICAL, grey no guarantee: only of the green ones is ε a limit. "
  + "Point at a release, or move to it with the tab key, to read it below.";
const NOTHING = "Nothing to draw: these releases don't say how sure they are. Start with --vocab to see how far they "
  + "went from public text.";
const NO_LEDGER = "none was charged: nothing keeps the sum of releases about these people";
const NO_COMMAND = "not noted: made from Python, or by an earlier version";
const WEIGHTS = "Weights with which the public sources, mixed, fit the noisy counts best. They are learnt after the "
  + "noise: inside the ε of the release. Whiskers and ± are two standard deviations. Hollow bars may be noise.";
const DISCOVERED = "Many people write these n-grams, and public text lacks them. They were found in people's own text, at "
  + "an ε of its own, which adds up with this release's.";
let measures = []; // what can be drawn against ε
let releases = [];
let ranking = [];
let asked = 0;
let measure = ""; // of an address, until it is known what there is to measure

export async function begin(about, values) {
  ({ releases, ranking } = about);
  options(find("card-release"), releases.map((release, at) => [at, inList(release)]));
  find("card-release").addEventListener("change", () => { remember(); card(); });
  find("trade-measure").addEventListener("change", () => { remember(); trade(); });
  for (const form of find("privacy").querySelectorAll("form"))
    form.addEventListener("submit", (event) => event.preventDefault());
  readAloud(find("trade-chart"), find("trade-readout"));
  glance();
  restore(values);
  learn();
}

// What can be drawn against ε.
async function learn() {
  try {
    measures = await ask("api/trade");
    options(find("trade-measure"), measures.map(({ key, name }) => [key, name]));
    find("trade-form").hidden = !measures.length;
    choose(measure);
    trade();
    fine("privacy");
  } catch (error) {
    trouble(error, "privacy");
    whenBack(error, learn);
  }
}

export function restore(values) {
  find("card-release").value = placeOf(values.get("release"), { releases, ranking });
  measure = values.get("measure") ?? "";
  if (measures.length) { choose(measure); trade(); }
  remember();
  card();
}

export const remember = () => keep("privacy", { release: releases[Number(find("card-release").value)].name,
  measure: find("trade-measure").value || measure });

function choose(wanted) {
  const select = find("trade-measure");
  if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
}

function trade() {
  const place = find("trade-chart");
  find("trade-caption").textContent = measures.length ? CAPTION : NOTHING;
  find("trade-silent").textContent = "";
  find("trade-readout").textContent = "";
  if (!measures.length) { clearPicture(place); return; }
  showPicture(place, async (width) => {
    try {
      const wanted = new URLSearchParams({ measure: find("trade-measure").value, width });
      const { picture, silent } = await ask(`api/trade/picture?${wanted}`);
      find("trade-caption").textContent = picture ? CAPTION : NOTHING;
      find("trade-silent").textContent = picture && silent.length
        ? `Not drawn: ${silent.join(", ")}: no ε, or no word on how sure the numbers are.` : "";
      return picture;
    } catch (error) {
      trouble(error, "privacy");
      whenBack(error, learn);
      return null;
    }
  });
}

function glance() {
  const heads = ["release", "mechanism", "label", "ε", "δ", "odds change by at most (δ left aside)", "n-grams"];
  const shownNumber = (value) => (value === null ? "–" : value && value < 1e-3 ? value.toExponential() : String(value));
  const kind = (at) => (heads[at] === "mechanism" ? "less" : ""); // the card has it
  find("trade-table").replaceChildren(el("table", {}, el("caption", {}, "At a glance"),
    el("thead", {}, el("tr", {}, heads.map((name, at) => el("th", { scope: "col", class: kind(at) }, name)))),
    el("tbody", {}, releases.map((item) => el("tr", {}, [el("bdi", {}, item.name), item.mechanism,
      label(item), shownNumber(item.epsilon), shownNumber(item.delta), item.factor === "–" ? "–" : `× ${item.factor}`,
      number(item.size)].map((cell, at) => el("td", { class: kind(at) }, cell)))))));
}

async function card() {
  const mine = ++asked;
  try {
    const told = await ask(`api/card?release=${find("card-release").value}`);
    if (mine !== asked) return; // another one was chosen
    find("card").replaceChildren(...described(told));
    fine("card");
  } catch (error) {
    if (mine !== asked) return;
    find("card").replaceChildren(); // another release's card is no answer
    trouble(error, "card");
    whenBack(error, () => { if (mine === asked) card(); });
  }
}

function described(told) {
  const list = (lines) => el("ul", {}, lines.map((line) => el("li", {}, line)));
  const pairs = [
    told.quality.length ? ["How good it is", told.quality.map((line) => el("p", {}, line))] : null,
    ["Who is protected", told.protects],
    told.person ? ["For a person", told.person] : null,
    ["What ε means", told.meaning.map((line) => el("p", {}, line))],
    ["What is not covered", list(told.not_covered)],
    told.assumes.length ? ["What it rests on", list(told.assumes)] : null,
    ["With other releases", told.composition],
    told.chain ? ["Chain", told.chain] : null,
    told.inferred ? ["Inferred", told.inferred] : null,
    told.made_from.length ? ["Made from", list(told.made_from)] : null,
    told.segment ? ["Segment", told.segment] : null,
    ["Vocabulary", told.vocabulary],
    ["Ledger", told.ledger ?? NO_LEDGER],
    ["Command", told.command ? el("pre", {}, told.command) : NO_COMMAND],
  ].filter(Boolean);
  return [el("h4", {}, el("bdi", {}, told.name), " ", label(told)), el("p", {}, told.statement),
    ...told.warnings.map((warning) => el("p", { class: "warning" }, warning)),
    el("dl", {}, pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...[value].flat())])),
    ...sources(told),
    ...discovered(told),
    el("h3", {}, "How many users were clipped"), el("p", {}, told.clipping), ...(told.has_norms ? drawn("norms", told.norms_caption) : []),
    el("details", {}, el("summary", {}, "Settings"), el("div", { class: "scroll" }, settings(told.facts)))];
}

function settings(facts) {
  const row = ([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "words" }, el("bdi", {}, value)));
  return el("table", {}, el("tbody", {}, Object.entries(facts).map(row)));
}

// A picture of the card, and below it what its marks say.
function drawn(name, caption) {
  const place = el("div", { class: "chart" }), release = find("card-release").value;
  const readout = el("p", { class: "readout", role: "status", "aria-live": "polite" });
  readAloud(place, readout);
  showPicture(place, async (width) => {
    const answer = await ask(`api/card/pictures?${new URLSearchParams({ release, width })}`).catch(() => ({}));
    return answer[name];
  });
  return [el("figure", {}, place, el("figcaption", {}, caption)), readout];
}

function sources(told) {
  if (!told.sources) return [];
  return [el("h3", {}, "Which public text your people write like"), el("p", {}, told.sources),
    ...drawn("sources", WEIGHTS)];
}

function discovered(told) {
  if (!told.discovered.length) return [];
  const sure = told.discovered.some((row) => row.interval);
  const heads = ["n-gram", "order", "released", ...(sure ? ["interval"] : [])];
  const line = (row) => el("tr", {}, [el("bdi", {}, row.ngram), String(row.order), probability(row.value),
    ...(sure ? [row.interval.map(probability).join(" to ")] : [])].map((cell) => el("td", {}, cell)));
  return [el("h3", {}, "Discovered"), el("p", {}, DISCOVERED),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Discovered n-grams" },
      el("table", {}, el("caption", {}, "The most probable of them"),
        el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, told.discovered.map(line))))];
}
