// Type, and see the next words from each release side by side.

import { keep } from "./address.js";
import { ask, el, find, fine, label, later, options, percent, svg, trouble, whenBack } from "./dom.js";

const HOW_MANY = 5;
const SENT = 1000; // characters: more can't matter to a model of n-grams, and hardly to the words of the text
const FEW = 3; // so many releases are all shown at first; of more, the two that differ most

const NOTHING = { before: null, typed: "", columns: [] };
let asked = 0;
let last = NOTHING;
let publicText = [];
let releases = [];
let ranking = [];
let differing = []; // places of the two releases that differ most
let compared = []; // places of releases
let marked = ""; // the name of the column whose words the keys put in
let columns = [];

export function begin(about, values) {
  publicText = about.public ? [{ name: about.public.name, guarantee: null }] : [];
  ({ releases, ranking } = about);
  differing = about.defaults.differing;
  find("chooser").hidden = releases.length < 2;
  find("fresh-legend").hidden = !about.public;
  const text = find("text");
  text.addEventListener("input", later(40, suggest));
  document.addEventListener("selectionchange", later(80, moved));
  text.addEventListener("keydown", pressed);
  find("cache").addEventListener("change", suggest);
  find("marked").addEventListener("change", () => mark(find("marked").value));
  find("all").addEventListener("click", () => compare(releases.map((_, at) => at)));
  find("best").addEventListener("click", () => compare(usual()));
  restore(values);
}

const usual = () => (releases.length > FEW ? differing : releases.map((_, at) => at));

export function restore(values) {
  const wanted = new Set(values.getAll("show"));
  const found = releases.flatMap((release, at) => (wanted.has(release.name) ? [at] : []));
  marked = values.get("marked") ?? "";
  compare(found.length ? found : usual());
}

export function remember() {
  const isUsual = compared.join() === usual().join();
  keep("keyboard", { show: isUsual ? [] : compared.map((at) => releases[at].name), marked });
}

// Which releases have a column; the best of them is marked, unless somebody marked another one.
function compare(places) {
  compared = places;
  const sources = [...publicText, ...compared.map((at) => releases[at])];
  columns = sources.map(column);
  find("columns").replaceChildren(...columns.map((each) => each.box));
  options(find("marked"), sources.map((source) => [source.name, source.name]));
  find("chosen").textContent = `Choose releases (${compared.length} of ${releases.length} shown)`;
  find("choices").replaceChildren(...releases.map(choice));
  find("whisker-legend").hidden = !compared.some((at) => releases[at].intervals);
  const labels = new Set(sources.map((source) => source.guarantee ?? "public"));
  for (const each of document.querySelectorAll("[data-label]")) each.hidden = !labels.has(each.dataset.label);
  mark(marked);
  suggest();
}

function choice(release, at) {
  const others = compared.filter((place) => place !== at), alone = compared.length === 1;
  const toggled = (event) => compare((event.target.checked ? [...compared, at] : others).sort((a, b) => a - b));
  const box = el("input", { type: "checkbox", value: at, checked: compared.includes(at), onchange: (event) => {
    toggled(event);
    find("choices").querySelector(`[value="${at}"]`).focus(); // it was drawn anew
  } });
  box.disabled = alone && compared[0] === at; // one stays
  return el("li", {}, el("label", {}, box, " ", el("bdi", {}, release.name)), " ", label(release),
    el("span", { class: "claim" }, claim(release)));
}

// What is claimed, broken only where that reads well.
function claim(source) {
  if (!source.guarantee) return ["no private data"];
  const [epsilon, delta] = source.claim.replace(/ \([A-Z]+(, [a-z]+)?\)$/, "").split(/(?<=,) /);
  const [number, unit] = (delta ?? "").split(/ (?=for )/);
  const whole = (text) => el("span", { class: "label" }, text);
  return [whole(source.mechanism), " · ", whole(epsilon), ...(number ? [" ", whole(number)] : []),
    ...(unit ? [` ${unit}`] : [])];
}

function column(source) {
  const list = el("ol", { "aria-label": `Suggestions of ${source.name}` });
  // By keyboard, the choice of a column is the one beside the text: these would be many stops away.
  const radio = el("input", { type: "radio", name: "chosen", tabindex: -1, onchange: () => mark(source.name) });
  const worth = source.guarantee ? label(source) : el("span", { class: "badge public" }, "public");
  const box = el("article", { class: `column ${source.guarantee ?? "public"}` },
    el("h3", {}, el("label", {}, radio, " ", el("bdi", {}, source.name))),
    el("div", { class: "worth" }, worth, el("p", { class: "claim" }, claim(source))), list);
  return { name: source.name, box, list, radio };
}

function mark(name) {
  marked = columns.some((each) => each.name === name) && name !== bestShown() ? name : "";
  find("marked").value = chosen().name;
  for (const each of columns) {
    each.radio.checked = each === chosen();
    each.box.classList.toggle("chosen", each === chosen());
  }
  remember();
  tell();
}

const bestShown = () => releases[ranking.find((at) => compared.includes(at))].name;
const chosen = () => columns.find((each) => each.name === (marked || bestShown()));

const before = () => find("text").value.slice(0, find("text").selectionStart);

const moved = () => { if (document.activeElement === find("text") && before() !== last.before) suggest(); };

async function suggest() {
  const turn = ++asked, said = before();
  try {
    const wish = { text: said.slice(-SENT), k: HOW_MANY, cache: find("cache").checked, releases: compared };
    const answer = await ask("api/predict", wish);
    if (turn !== asked) return; // a later keystroke was faster
    last = { ...answer, before: said };
    draw();
    fine("keyboard");
  } catch (error) {
    if (turn !== asked) return;
    last = NOTHING; // what was suggested for another text is no suggestion
    for (const each of columns) each.list.replaceChildren(el("li", { class: "none" }, "no answer"));
    trouble(error, "keyboard");
    whenBack(error, () => { if (turn === asked) suggest(); });
  }
}

function draw() {
  const all = last.columns.flatMap((found) => found.words);
  const most = Math.max(0.02, ...all.map((word) => Math.min(1, word.probability * 1.15)));
  const usual = new Set((publicText.length ? last.columns[0].words : all).map((word) => word.word));
  last.columns.forEach((found, at) => {
    const rows = found.words.map((word, place) => el("li", {}, button(word, place + 1, most, !usual.has(word.word))));
    columns[at].list.replaceChildren(...(rows.length ? rows : [nothing()]));
  });
  tell();
}

const nothing = () => el("li", { class: "none" }, "nothing in the list begins like this");

function button(word, key, most, fresh) {
  const sure = word.low === null ? "" : `, 95% interval ${percent(word.low)} to ${percent(word.high)}`;
  const values = `${percent(word.probability)}${sure}`;
  const told = { title: values, "aria-label": `${word.word}, ${values}`, onclick: () => put(word) };
  return el("button", { type: "button", class: fresh ? "word fresh" : "word", ...told },
    el("kbd", { "aria-hidden": "true" }, String(key)), el("bdi", {}, word.word),
    el("span", { class: "share" }, percent(word.probability)), bar(word, most));
}

function bar(word, most) {
  const x = (value) => `${Math.min(100, (100 * value) / most)}%`;
  const parts = [svg("rect", { class: "track", x: 0, y: 2, width: "100%", height: 5 }),
    svg("rect", { class: "likely", x: 0, y: 2, width: x(word.probability), height: 5 })];
  if (word.low !== null) {
    parts.push(svg("line", { x1: x(word.low), y1: 4.5, x2: x(word.high), y2: 4.5 }), cap(x(word.low)));
    parts.push(word.high > most ? arrow() : cap(x(word.high)));
  }
  return svg("svg", { height: 9, "aria-hidden": "true" }, parts);
}

const arrow = () => svg("svg", { class: "beyond", x: "100%" }, svg("path", { d: "M-6 0.5 L-1 4.5 L-6 8.5" }));
const cap = (x) => svg("line", { x1: x, y1: 1, x2: x, y2: 8 });

function tell() {
  const found = last.columns[columns.indexOf(chosen())];
  if (!found) return;
  const words = found.words.map((word, at) => `${at + 1} ${word.word}`).join(", ");
  find("heard").textContent = `${found.name}: ${words || "nothing"}`;
}

// At the caret, in place of the word being typed; as if it had been typed, so that it can be undone.
function put(word) {
  const text = find("text"), end = text.selectionEnd;
  const kept = [...before()].length - [...last.typed].length; // characters, some of which JavaScript counts as two
  const start = word.adds === null ? [...before()].slice(0, kept).join("").length : text.selectionStart;
  const spaced = /^\s/.test(text.value.slice(end));
  const added = word.adds ?? (spaced ? word.word : `${word.word} `);
  text.focus();
  text.setSelectionRange(start, end);
  if (!document.execCommand("insertText", false, added)) text.setRangeText(added, start, end, "end");
  if (word.adds === null && spaced) text.setSelectionRange(text.selectionEnd + 1, text.selectionEnd + 1);
  suggest();
}

// Alt and a digit put in a suggestion; digits alone are typed. AltGr is Ctrl and Alt, and types characters. The code
// names the key itself, because Alt changes what it types on some systems.
async function pressed(event) {
  const alt = event.altKey && !event.ctrlKey && !event.metaKey && !event.isComposing;
  const key = Number(/^Digit(\d)$/.exec(event.code)?.[1]);
  const wanted = () => last.columns[columns.indexOf(chosen())]?.words[key - 1];
  if (!alt || !(key >= 1 && key <= HOW_MANY) || !wanted()) return;
  event.preventDefault();
  // Somebody types faster than the answers come; and a later question makes an answer void.
  while (last !== NOTHING && last.before !== before()) await suggest();
  if (wanted()) put(wanted());
}
