// What ε means for a release, its card in plain words, and the accuracy of all releases against ε.

import { keep, openRelease, placeOf } from "./address.js";
import { ask, el, find, fine, inList, label, number, options, probability, tableOf, trouble,
  whenBack } from "./dom.js";
import { readAloud, showPicture, clearPicture } from "./charts.js";

const CAPTION = "Green: PROVED. Orange: EMPIRICAL. Grey: no guarantee. Only where it is PROVED, ε is a limit. "
  + "Point at a release, or move to it with the Tab key, to read its numbers below the picture.";
const NOTHING = "Nothing to draw: these releases do not say how accurate they are. Start this page with --vocab to see how "
  + "far they are from public text.";
const NO_LEDGER = "none was charged, so nothing keeps the sum of releases about these people";
const NO_COMMAND = "not recorded: the release was made from Python, or by an earlier version";
const WEIGHTS = "The mixture of public sources with these weights fits the noisy counts best. Learning them costs no extra "
  + "privacy. Lines and ± are 95% intervals. Hollow bars may be noise.";
const DISCOVERED = "Many people write these n-grams, and public text lacks them. They were discovered in people's own text. "
  + "The discovery has an ε of its own, which is added to that of this release.";
const DISCOVERED_ROWS = 12; // Browse has all of them
let measures = []; // what can be drawn against ε
let releases = [];
let defaults = {};
let asked = 0;
let measure = ""; // of an address, until it is known what there is to measure

export async function begin(about, values) {
  ({ releases, defaults } = about);
  options(find("card-release"), releases.map((release, at) => [at, inList(release)]));
  find("card-release").addEventListener("change", () => {
    openRelease(releases[Number(find("card-release").value)].name);
    remember();
    card();
  });
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
  find("card-release").value = placeOf(values.get("release"), { releases, defaults });
  openRelease(releases[Number(find("card-release").value)].name);
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
        ? `${silent.length === 1 ? "1 release is" : `${silent.length} releases are`} not drawn, because they have no ε or no `
          + `estimate of their accuracy: ${silent.join(", ")}.` : "";
      return picture;
    } catch (error) {
      trouble(error, "privacy");
      whenBack(error, learn);
      return null;
    }
  });
}

function glance() {
  const shownNumber = (value) => (value === null ? "–" : value && value < 1e-3 ? value.toExponential() : String(value));
  const cells = (value) => releases.map(value);
  find("trade-table").hidden = releases.length < 2;
  find("trade-table").replaceChildren(...tableOf("", [
    ["release", cells(({ name }) => ({ text: name, node: el("bdi", {}, name) }))],
    ["mechanism", cells((item) => item.mechanism), "less"], // the card has it
    ["guarantee", cells((item) => ({ text: `${item.guarantee} ${item.grade ?? ""}`.trim(), node: label(item) }))],
    ["ε", cells((item) => shownNumber(item.epsilon))],
    ["δ", cells((item) => shownNumber(item.delta)), "less"],
    ["odds change at most", cells((item) => (item.factor === "–" ? "–" : `× ${item.factor}`)), "less"],
    ["n-grams", cells((item) => number(item.size)), "less"],
  ]));
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
    ["What it is", told.contents],
    ["How many people", told.people],
    told.accuracy.length ? ["How good it is", told.accuracy.join(" ")] : null,
    ["What it costs", told.cost],
    ["Who is protected", told.protects],
    told.person ? ["For a person", told.person] : null,
    ["What is not covered", list(told.not_covered)],
    told.checks.length ? ["Before publishing, check", list(told.checks)] : null,
    told.chain ? ["Follows", told.chain] : null,
    told.inferred ? ["Inferred", told.inferred] : null,
    told.made_from.length ? ["Made from", list(told.made_from)] : null,
    told.segment ? ["Segment", told.segment] : null,
    ["Vocabulary", told.vocabulary],
    ["Ledger", told.ledger ?? NO_LEDGER],
    ["Command", told.command ? el("pre", {}, told.command) : NO_COMMAND],
  ].filter(Boolean);
  return [el("h3", {}, "What ε means for ", el("bdi", {}, told.name), " ", label(told)),
    ...told.meaning.map((line) => el("p", {}, line)),
    ...told.warnings.map((warning) => el("p", { class: "warning" }, warning)),
    el("h3", {}, "About this release"), el("p", {}, told.statement),
    el("dl", {}, pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...[value].flat())])),
    ...sources(told),
    ...discovered(told),
    el("h3", {}, "How many users were clipped"), el("p", {}, told.clipping), ...(told.has_norms ? drawn("norms", told.norms_caption) : []),
    el("details", {}, el("summary", {}, "Details and settings"), ...told.quality.map((line) => el("p", {}, line)),
      el("div", { class: "scroll" }, settings(told.facts)))];
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
  return [el("h3", {}, "Which public text is closest"), el("p", {}, told.sources),
    ...drawn("sources", WEIGHTS)];
}

function discovered(told) {
  const rows = told.discovered.slice(0, DISCOVERED_ROWS);
  if (!rows.length) return [];
  const interval = (row) => row.interval.map(probability).join(" to ");
  const columns = [
    ["n-gram", rows.map((row) => ({ text: row.ngram, node: el("bdi", {}, row.ngram) }))],
    ["words", rows.map((row) => String(row.order))],
    ["release", rows.map((row) => probability(row.value))],
    ...(rows.every((row) => row.interval) ? [["95% interval", rows.map(interval), "less"]] : []),
  ];
  return [el("h3", {}, "Discovered"), el("p", {}, DISCOVERED),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Discovered n-grams" },
      tableOf("The most probable of them (Browse lists all)", columns))];
}
