// Which part is shown, and what all parts know about the releases.

import { part, said } from "./address.js";
import { ask, find, fine, trouble, whenBack } from "./dom.js";
import * as keyboard from "./keyboard.js";
import * as browse from "./browse.js";
import * as changes from "./changes.js";
import * as privacy from "./privacy.js";
import * as plan from "./plan.js";

// Each has begin(about); and where it keeps something in the address, restore(values) and remember().
const PARTS = { keyboard, browse, changes, privacy, plan };
const begun = new Set();

const shown = () => (part() in PARTS ? part() : "keyboard");

function show(about, moved) {
  const name = shown();
  for (const each of Object.keys(PARTS)) find(each).hidden = each !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} – Bayesgram`;
  if (!begun.has(name)) {
    begun.add(name);
    PARTS[name].begin(about, said());
  } else if ([...said()].length) PARTS[name].restore?.(said());
  else (PARTS[name].revisit ?? PARTS[name].remember)?.();
  if (moved) { window.scrollTo(0, 0); find("main").focus({ preventScroll: true }); }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address keeps what is shown
  find("main").focus();
});

async function start() {
  try {
    const about = await ask("api/about");
    fine();
    find("version").textContent = `bayesgram ${about.version}`;
    show(about, false);
    addEventListener("hashchange", () => show(about, true));
  } catch (error) {
    trouble(error);
    whenBack(error, start);
  }
}

start();
