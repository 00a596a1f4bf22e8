// Plan a release: simulations come in one by one, and the picture grows.

import { ask, digits, el, find, fine, number, share, trouble } from "./dom.js";
import { logAxis, plane } from "./charts.js";

const AROUND = [0.1, 0.3, 1, 3]; // ε drawn beside the one that is asked for
const DRAWS = 3;
const NAMES = { users: "Users", ngrams_a_user: "N-grams a user writes", epsilon: "ε", delta: "δ",
  size: "N-grams in the vocabulary" };
let stop = new AbortController();

export async function begin() {
  try {
    const bounds = await ask("api/plan");
    if (!bounds.possible) {
      find("plan-form").hidden = true;
      find("plan-about").textContent = "Planning needs public text: start with --vocab vocab.parquet.";
      return;
    }
    find("plan-size").value = number(Math.min(10000, bounds.largest));
  } catch (error) {
    trouble(error);
  }
  find("plan-form").addEventListener("submit", (event) => { event.preventDefault(); simulate(); });
  find("plan-stop").addEventListener("click", () => stop.abort());
}

const given = (name) => Number(find(`plan-${name}`).value.replaceAll(",", "").trim() || NaN);

function wish() {
  const asked = {
    users: given("users"),
    ngrams_a_user: given("amount"),
    unevenness: given("unevenness"),
    difference: given("difference"),
    epsilon: given("epsilon"),
    delta: given("delta"),
    size: given("size"),
  };
  for (const [name, words] of Object.entries(NAMES))
    if (!Number.isFinite(asked[name])) throw new Error(`${words}: give a number.`);
  if (!Number.isInteger(asked.size)) throw new Error("N-grams in the vocabulary: give a whole number.");
  return asked;
}

async function simulate() {
  stop.abort();
  stop = new AbortController();
  const mine = stop;
  working(true);
  try {
    const asked = wish();
    const epsilons = [asked.epsilon, ...AROUND.filter((epsilon) => Math.abs(Math.log(epsilon / asked.epsilon)) > 0.2)];
    const found = new Map(epsilons.map((epsilon) => [epsilon, []]));
    find("plan-sentence").textContent = "Simulating …";
    for (let draw = 0; draw < DRAWS; draw += 1)
      for (const epsilon of epsilons) {
        found.get(epsilon).push(await ask("api/plan", { ...asked, epsilon, draw }, mine.signal));
        show(asked, found);
      }
    fine();
  } catch (error) {
    trouble(error);
    if (find("plan-sentence").textContent === "Simulating …") find("plan-sentence").textContent = "";
  } finally {
    if (mine === stop) working(false);
  }
}

function working(busy) {
  find("plan-go").disabled = busy;
  find("plan-stop").hidden = !busy;
}

const short = (tick) => (tick < 1e-3 ? tick.toExponential() : digits(tick)); // 1e-5 has room where 0.00001 has none

const range = (draws, name) => {
  const values = draws.map((draw) => draw[name]);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, low: Math.min(...values), high: Math.max(...values) };
};

function sentence(asked, draws) {
  const kl = range(draws, "kl"), alone = range(draws, "public_kl");
  const band = `${digits(kl.low, 2)} to ${digits(kl.high, 2)} in ${draws.length} simulated releases`;
  const won = alone.mean > 0 ? Math.max(0, 1 - kl.mean / alone.mean) : 0;
  return [
    `At ε = ${digits(asked.epsilon)}, expect a KL of about ${digits(kl.mean, 2)}`,
    `(${draws.length === 1 ? "1 simulated release" : band}); public text alone has ${digits(alone.mean, 2)}.`,
    `The release would close ${share(won)} of that gap, and ${share(range(draws, "known").mean)} of what people write`,
    "would be known within a factor of 2.",
    `About ${share(draws.at(-1).clipped)} of the users write more than would count in full.`,
    draws.at(-1).model === "public" ? "Noise hides what these people write: the answer would be public text." : "",
  ].join(" ");
}

function show(asked, found) {
  const done = [...found].filter(([, draws]) => draws.length).sort(([a], [b]) => a - b);
  const alone = range(done.flatMap(([, draws]) => draws), "public_kl").mean;
  const points = done.map(([epsilon, draws]) => {
    const { mean, low, high } = range(draws, "kl");
    const band = draws.length > 1 ? { low, high } : {};
    const look = epsilon === asked.epsilon ? { colour: "good", name: "yours" } : { colour: "mute", name: "" };
    const span = draws.length > 1 ? `, ${digits(low, 2)} to ${digits(high, 2)}` : "";
    const values = `ε = ${digits(epsilon)}: KL about ${digits(mean, 2)}${span}.`;
    return { x: epsilon, y: mean, ...band, ...look, values };
  });
  const levels = [...points.flatMap((point) => [point.y, point.low, point.high]), alone].filter((level) => level > 0);
  find("plan-figure").replaceChildren(plane({
    title: "Expected KL against ε", points, joined: true, readout: find("plan-readout"),
    x: (from, to) => logAxis(points.map((point) => point.x), from, to),
    y: (from, to) => logAxis(levels, from, to),
    xName: "ε: more is less private", yName: "expected KL, lower is better",
    yText: short,
    dashed: alone > 0 ? { y: alone, name: "public text alone" } : null,
  }));
  find("plan-sentence").textContent = sentence(asked, found.get(asked.epsilon));
  find("plan-warnings").replaceChildren(...found.get(asked.epsilon).at(-1).warnings
    .map((warning) => el("p", { class: "warning" }, warning)));
  find("plan-notes").hidden = false;
}
