// Plan a release: simulations come in one by one, and the picture grows.

import { keep, placeOf } from "./address.js";
import { clearPicture, readAloud, showPicture } from "./charts.js";
import { AGAIN, ask, digits, el, find, fine, inList, isLost, number, options, pause, share, trouble,
  whenBack } from "./dom.js";
import { typedNumber } from "./numbers.js";

const AROUND = [0.1, 0.3, 1, 3]; // ε drawn beside the one that is asked for
const DRAWS = 3;
// What is typed or chosen: which field it is, and what it is called.
const FIELDS = {
  users: { id: "users", name: "Users", whole: true },
  epsilon: { id: "epsilon", name: "ε" },
  delta: { id: "delta", name: "δ" },
  size: { id: "size", name: "N-grams in the vocabulary", whole: true },
  ngrams_a_user: { id: "amount", name: "N-grams a user writes" },
  unevenness: { id: "unevenness", name: "Users write" },
  difference: { id: "difference", name: "Private text is" },
};
const OWN = "own"; // of the list of releases to start from: the numbers of whoever plans
let stop = new AbortController();
let catalogue = { releases: [], defaults: {} };
let largest = Infinity; // number of n-grams that a plan can have
let learnt = Promise.resolve(); // when it is known for how many n-grams a plan can be

const field = (name) => find(`plan-${FIELDS[name].id}`);

export function begin(about, values) {
  catalogue = about;
  const pairs = about.releases.flatMap((release, at) => (release.plan ? [[at, inList(release)]] : []));
  options(find("plan-start"), [...pairs, [OWN, "your own numbers"]]);
  find("plan-start-field").hidden = !pairs.length;
  find("plan-start").addEventListener("change", fill);
  restore(values);
  find("plan-form").addEventListener("submit", (event) => { event.preventDefault(); simulate(); });
  find("plan-form").addEventListener("change", (event) => {
    if (event.target !== find("plan-start")) find("plan-start").value = OWN;
    remember();
  });
  find("plan-form").addEventListener("input", (event) => event.target.removeAttribute("aria-invalid"));
  find("plan-stop").addEventListener("click", () => stop.abort());
  readAloud(find("plan-chart"), find("plan-readout"));
  learnt = learn(values.has("size"));
}

// Whether a plan can be made, and for how many n-grams.
async function learn(sized) {
  try {
    const bounds = await ask("api/plan");
    if (!bounds.possible) {
      find("plan-form").hidden = true;
      find("plan-about").textContent = "Planning needs public text: start this page with --vocab vocab.parquet.";
      return;
    }
    largest = bounds.largest;
    const size = find("plan-size");
    if (!sized) size.value = number(Math.min(Number(size.value.replaceAll(",", "")) || largest, largest));
    fine("plan");
  } catch (error) {
    trouble(error, "plan");
    whenBack(error, () => learn(sized));
  }
}

// Nothing in the address: the plan starts from the release that is open, and from what it says of its people.
export function restore(values) {
  if (![...values.keys()].some((name) => name in FIELDS)) {
    const open = placeOf(values.get("start"), catalogue);
    find("plan-start").value = catalogue.releases[open]?.plan ? open : OWN;
    fill();
    return;
  }
  const start = catalogue.releases.findIndex((release) => release.plan && release.name === values.get("start"));
  find("plan-start").value = start < 0 ? OWN : start;
  for (const [name, value] of values) {
    if (!(name in FIELDS)) continue;
    const before = field(name).value;
    field(name).value = value;
    if (!field(name).value) field(name).value = before; // no such choice
  }
}

const started = () => catalogue.releases[Number(find("plan-start").value)];

// Somebody comes back, and may have opened another release meanwhile.
export function revisit() {
  const open = placeOf("", catalogue);
  if (started() && catalogue.releases[open].plan && started() !== catalogue.releases[open]) {
    find("plan-start").value = open;
    stop.abort();
    clear();
    fill();
  }
  remember();
}

function fill() {
  const start = started()?.plan;
  if (!start) return;
  const shown = { users: number(start.users), ngrams_a_user: digits(start.ngrams_a_user), epsilon: digits(start.epsilon),
    delta: start.delta ? start.delta.toExponential() : "0", size: number(Math.min(start.size, largest)) };
  for (const [name, value] of Object.entries(shown)) field(name).value = value;
}

export function remember() {
  if (find("plan-form").hidden) return; // without public text
  const values = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, field(name).value]));
  keep("plan", { start: started()?.name, ...values });
}

const wish = () => Object.fromEntries(Object.keys(FIELDS).map((name) => [name, typed(name)]));

function typed(name) {
  const { name: words, whole } = FIELDS[name];
  try {
    return typedNumber(words, field(name).value, { whole });
  } catch (error) {
    refuse(name);
    throw error;
  }
}

function refuse(name) {
  field(name).setAttribute("aria-invalid", "true");
  field(name).focus();
}

// One simulation; a server that is lost is asked until it is back.
async function simulated(asked, signal) {
  for (;;) {
    try {
      const answer = await ask("api/plan", asked, signal);
      fine("plan");
      return answer;
    } catch (error) {
      if (!isLost(error)) throw error;
      trouble(error, "plan");
      await pause(AGAIN);
      signal.throwIfAborted();
    }
  }
}

async function simulate() {
  stop.abort();
  stop = new AbortController();
  const mine = stop;
  remember();
  clear();
  working(true);
  try {
    await learnt;
    const asked = wish();
    const epsilons = [asked.epsilon, ...AROUND.filter((epsilon) => Math.abs(Math.log(epsilon / asked.epsilon)) > 0.2)];
    const found = new Map(epsilons.map((epsilon) => [epsilon, []]));
    find("plan-sentence").textContent = "Simulating …";
    for (let draw = 0; draw < DRAWS; draw += 1)
      for (const epsilon of epsilons) {
        found.get(epsilon).push(await simulated({ ...asked, epsilon, draw }, mine.signal));
        show(asked, found);
      }
  } catch (error) {
    if (error.name === "AbortError") fine("plan");
    const named = Object.keys(FIELDS).find((name) => error.message.startsWith(`${name}=`));
    if (named) refuse(named);
    trouble(error, "plan");
    if (find("plan-sentence").textContent === "Simulating …") find("plan-sentence").textContent = "";
  } finally {
    if (mine === stop) working(false);
  }
}

// What was found for another wish is no answer to this one.
function clear() {
  fine("plan");
  clearPicture(find("plan-chart"));
  for (const id of ["plan-sentence", "plan-warnings", "plan-readout"]) find(id).replaceChildren();
  find("plan-notes").hidden = true;
}

function working(busy) {
  find("plan-go").disabled = busy;
  find("plan-stop").hidden = !busy;
}

const range = (draws, name) => {
  const values = draws.map((draw) => draw[name]);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, low: Math.min(...values), high: Math.max(...values) };
};

function sentence(asked, draws) {
  const kl = range(draws, "kl"), alone = range(draws, "public_kl");
  const band = draws.length === 1 ? "1 simulated release" : `${draws.length} simulated releases: ${digits(kl.low, 2)} to ${digits(kl.high, 2)}`;
  const won = alone.mean > 0 ? Math.max(0, 1 - kl.mean / alone.mean) : 0;
  return [
    `With ${number(asked.users)} users who write ${digits(asked.ngrams_a_user)} n-grams on average, and ε = ${digits(asked.epsilon)}:`,
    `the release removes about ${share(won)} of the error of public text.`,
    `About ${share(range(draws, "known").mean)} of what people write is accurate within a factor of 2.`,
    `About ${share(draws.at(-1).clipped)} of the users write more than is counted in full.`,
    `The distance from people's text (KL) is about ${digits(kl.mean, 2)}, compared with ${digits(alone.mean, 2)} for public text alone`,
    `(${band}).`,
    draws.at(-1).model === "public" ? "Noise hides what these people write: the release would equal public text." : "",
  ].join(" ");
}

function show(asked, found) {
  const done = [...found].filter(([, draws]) => draws.length).sort(([a], [b]) => a - b);
  const public_kl = range(done.flatMap(([, draws]) => draws), "public_kl").mean;
  const points = done.map(([epsilon, draws]) => ({ epsilon, kls: draws.map((draw) => draw.kl) }));
  showPicture(find("plan-chart"), async (width) => {
    const answer = await ask("api/plan/picture", { points, public_kl, width }).catch(() => ({ picture: null }));
    return answer.picture;
  });
  find("plan-sentence").textContent = sentence(asked, found.get(asked.epsilon));
  find("plan-warnings").replaceChildren(...found.get(asked.epsilon).at(-1).warnings
    .map((warning) => el("p", { class: "warning" }, warning)));
  find("plan-notes").hidden = false;
}
