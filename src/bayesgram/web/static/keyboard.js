// Type, and see the next words from each release side by side.

import { ask, el, find, fine, label, later, percent, svg, trouble } from "./dom.js";

const HOW_MANY = 5;
const SENT = 1000; // characters: more can't matter to a model of n-grams, and hardly to the words of the text

let asked = 0;
let chosen = 0;
let last = { typed: "", columns: [] };
let places = [];

export function begin(about) {
  const sources = [...(about.public ? [{ name: about.public.name, guarantee: null }] : []), ...about.releases];
  chosen = sources.length - 1;
  places = sources.map(column);
  find("columns").replaceChildren(...places.map((place) => place.box));
  find("fresh-legend").hidden = !about.public;
  find("whisker-legend").hidden = !about.releases.some((release) => release.intervals);
  const text = find("text");
  text.addEventListener("input", later(40, suggest));
  text.addEventListener("keydown", pressed);
  find("cache").addEventListener("change", suggest);
  mark();
  suggest();
}

function column(source, at) {
  const list = el("ol", { "aria-label": `Suggestions of ${source.name}` });
  const radio = el("input", { type: "radio", name: "chosen", onchange: () => { chosen = at; mark(); } });
  const worth = source.guarantee ? label(source) : el("span", { class: "badge public" }, "prior");
  const claim = source.guarantee ? source.claim.replace(/ \([A-Z]+(, [a-z]+)?\)$/, "") : "without private text";
  const box = el("article", { class: `column${source.guarantee ? "" : " public"}` },
    el("h3", {}, el("label", {}, radio, " ", el("bdi", {}, source.name)), worth),
    el("p", { class: "claim" }, source.guarantee ? `${source.mechanism} · ${claim}` : claim), list);
  return { box, list, radio, public: !source.guarantee };
}

function mark() {
  places.forEach((place, at) => {
    place.radio.checked = at === chosen;
    place.box.classList.toggle("chosen", at === chosen);
  });
  tell();
}

async function suggest() {
  const turn = ++asked;
  try {
    const said = { text: find("text").value.slice(-SENT), k: HOW_MANY, cache: find("cache").checked };
    const answer = await ask("api/predict", said);
    if (turn !== asked) return; // a later keystroke was faster
    last = answer;
    draw();
    fine();
  } catch (error) {
    if (turn === asked) trouble(error);
  }
}

function draw() {
  const all = last.columns.flatMap((found) => found.words);
  const most = Math.max(0.02, ...all.map((word) => Math.min(1, word.probability * 1.15)));
  const usual = new Set((places[0].public ? last.columns[0].words : all).map((word) => word.word));
  last.columns.forEach((found, at) => {
    const rows = found.words.map((word, place) => el("li", {}, button(word, place + 1, most, !usual.has(word.word))));
    places[at].list.replaceChildren(...(rows.length ? rows : [nothing()]));
  });
  tell();
}

const nothing = () => el("li", { class: "none" }, "no word begins like that");

function button(word, key, most, fresh) {
  const sure = word.low === null ? "" : `, between ${percent(word.low)} and ${percent(word.high)}`;
  const values = `${percent(word.probability)}${sure}`;
  const told = { title: values, "aria-label": `${word.word}, ${values}`, onclick: () => put(word) };
  return el("button", { type: "button", class: fresh ? "word fresh" : "word", ...told },
    el("kbd", { "aria-hidden": "true" }, String(key)), el("bdi", {}, word.word),
    el("span", { class: "share" }, percent(word.probability)), bar(word, most));
}

function bar(word, most) {
  const x = (value) => Math.min(100, (100 * value) / most);
  const [low, high] = [x(word.low), x(word.high)];
  const whisker = word.low === null ? [] : [[low, 4.5, high, 4.5], [low, 1, low, 8], [high, 1, high, 8]];
  return svg("svg", { viewBox: "0 0 100 9", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", x: 0, y: 2, width: 100, height: 5 }),
    svg("rect", { class: "likely", x: 0, y: 2, width: x(word.probability), height: 5 }),
    whisker.map(([x1, y1, x2, y2]) => svg("line", { x1, y1, x2, y2 })));
}

function tell() {
  const found = last.columns[chosen];
  if (!found) return;
  const words = found.words.map((word, at) => `${at + 1} ${word.word}`).join(", ");
  find("heard").textContent = `${found.name}: ${words || "nothing"}`;
}

function put(word) {
  const text = find("text");
  const kept = text.value.slice(0, text.value.length - last.typed.length);
  text.value = word.adds === null ? `${kept}${word.word} ` : `${text.value}${word.adds}`;
  text.focus();
  text.setSelectionRange(text.value.length, text.value.length);
  suggest();
}

function pressed(event) {
  const key = Number(event.key);
  const plain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing;
  const word = last.columns[chosen]?.words[key - 1];
  if (!plain || !find("keys").checked || !(key >= 1 && key <= HOW_MANY) || !word) return;
  event.preventDefault();
  put(word);
}
