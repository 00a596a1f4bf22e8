// Which part is shown, and what all parts know about the releases.

import { ask, find, trouble } from "./dom.js";
import * as keyboard from "./keyboard.js";
import * as browse from "./browse.js";
import * as changes from "./changes.js";
import * as privacy from "./privacy.js";
import * as plan from "./plan.js";

const PARTS = { keyboard, browse, changes, privacy, plan };
const begun = new Set();

function shown() {
  const wanted = location.hash.slice(1);
  return wanted in PARTS ? wanted : "keyboard";
}

function show(about, moved) {
  const name = shown();
  for (const part of Object.keys(PARTS)) find(part).hidden = part !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} – Bayesgram`;
  if (!begun.has(name)) {
    begun.add(name);
    PARTS[name].begin(about);
  }
  if (moved) { window.scrollTo(0, 0); find("main").focus({ preventScroll: true }); }
}

try {
  const about = await ask("api/about");
  find("version").textContent = `bayesgram ${about.version}`;
  show(about, false);
  addEventListener("hashchange", () => { if (location.hash !== "#main") show(about, true); });
} catch (error) {
  trouble(error);
}
