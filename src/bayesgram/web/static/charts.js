// Pictures: the server draws them (bayesgram.charts), for the width of their place, and sends trees
// of elements. A picture is asked for again when the width of its place changes.

import { svg } from "./dom.js";

// From [tag, attributes, ...children]; strings become text nodes, never markup.
const build = ([tag, attributes, ...children]) =>
  svg(tag, attributes, children.map((child) => (typeof child === "string" ? child : build(child))));

const loaders = new WeakMap(); // place: what loads its picture, and the width it was drawn for
const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => redraw(target)));

async function redraw(place) {
  const drawn = loaders.get(place), width = Math.floor(place.clientWidth);
  if (!drawn || !width || width === drawn.width) return;
  drawn.width = width;
  const tree = await drawn.load(width);
  if (loaders.get(place) === drawn && drawn.width === width) place.replaceChildren(...(tree ? [build(tree)] : []));
}

// Show what load(width) answers in a place, now and whenever its width changes.
export function showPicture(place, load) {
  loaders.set(place, { load, width: 0 });
  observer.observe(place);
  return redraw(place);
}

export function clearPicture(place) {
  loaders.delete(place);
  place.replaceChildren();
}

// A mark that the mouse or the keyboard points at says its values in the readout.
export function readAloud(place, readout) {
  const say = (event) => {
    const mark = event.target.closest?.(".mark");
    if (mark) readout.textContent = mark.getAttribute("aria-label");
  };
  for (const kind of ["mouseover", "focusin", "click"]) place.addEventListener(kind, say);
}
