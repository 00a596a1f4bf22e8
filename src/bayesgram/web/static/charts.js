// Drawings as wide as there is room; every mark can be reached by mouse and keyboard, and says its values.

import { digits, el, svg } from "./dom.js";

const HEIGHT = 340, LEFT = 56, RIGHT = 24, TOP = 40, BOTTOM = 48;
const LINE = 16; // the height of a label
const APART = 13; // dots that would cover each other are drawn so far apart
const SHIFTS = [0, -1, 1, -2, 2, -3, 3, -4, 4];
const COLOUR_OF_DATA = "full"; // of what is neither proved nor unproved

const drawings = new WeakMap(); // place: how it is drawn, and how wide it was
const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => redraw(target)));

function redraw(place) {
  const drawing = drawings.get(place), width = Math.floor(place.clientWidth);
  if (!width || width === drawing.width) return;
  drawing.width = width;
  place.replaceChildren(...[drawing.draw(width)].flat());
}

// Draw into a place, now and whenever its width changes.
export function fitted(place, draw) {
  drawings.set(place, { draw, width: 0 });
  observer.observe(place); // asks once by itself
  redraw(place);
  return place;
}

// A new place for a drawing.
export const chart = (draw) => fitted(el("div", { class: "chart" }), draw);

export function logAxis(values, from, to) {
  const positive = values.filter((value) => value > 0);
  const seen = positive.length ? positive : [1]; // all are 0: any axis shows that
  const low = Math.log10(Math.min(...seen) / 1.6), high = Math.log10(Math.max(...seen) * 1.6);
  const at = (value) => from + ((to - from) * (Math.log10(Math.max(value, 10 ** low)) - low)) / (high - low);
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1)
    for (const step of [1, 2, 5]) ticks.push(Number(`${step}e${power}`));
  const inside = ticks.filter((tick) => Math.log10(tick) >= low && Math.log10(tick) <= high);
  return { at, ticks: inside.length <= 7 ? inside : inside.filter((tick) => String(tick).match(/^1|^0\.0*1$|e/)) };
}

// From 0 to at least the largest value, with ticks at round numbers.
export function linearAxis(values, from, to) {
  const most = Math.max(...values) || 1, power = 10 ** Math.floor(Math.log10(most / 4));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((each) => 4.2 * each >= most);
  const ticks = [0, 1, 2, 3, 4].map((time) => time * step).filter((tick) => tick < most + step);
  const high = Math.max(ticks.at(-1), 1.04 * most);
  return { at: (value) => from + ((to - from) * value) / high, ticks };
}

const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });

const label = (x, y, anchor, text, kind = "dimmed") => svg("text", { class: kind, x, y, "text-anchor": anchor }, text);

const drawingOf = (width, height, title, parts) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title }, parts);

const heard = (words, readout) => {
  const say = () => { readout.textContent = words; };
  return { tabindex: 0, role: "img", "aria-label": words, onmouseenter: say, onfocus: say, onclick: say };
};

// points: {x, y, low?, high?, colour, name, values}; values is what the readout says. Where names have no room, the
// dots have numbers, and the names stand below.
export function plane({ width, title, points, x, y, xName, yName, yText = digits, dashed = null, joined = false,
  readout }) {
  const across = x(LEFT, width - RIGHT), up = y(HEIGHT - BOTTOM, TOP);
  const parts = [
    ...up.ticks.map((tick) => line("grid", LEFT, up.at(tick), width - RIGHT, up.at(tick))),
    ...up.ticks.map((tick) => label(LEFT - 8, up.at(tick) + 4, "end", yText(tick))),
    ...across.ticks.map((tick) => label(across.at(tick), HEIGHT - BOTTOM + 18, "middle", digits(tick))),
    label((LEFT + width - RIGHT) / 2, HEIGHT - 6, "middle", xName),
    label(0, 14, "start", yName),
  ];
  const taken = [];
  if (dashed) {
    const at = up.at(dashed.y);
    taken.push({ left: width - RIGHT - widthOf(dashed.name), right: width - RIGHT, top: at - 20, bottom: at });
    parts.push(line("dashed", LEFT, at, width - RIGHT, at));
    parts.push(label(width - RIGHT, at - 6, "end", dashed.name, "dimmed name"));
  }
  const dots = apart(points.map((point) => ({ ...point, cx: across.at(point.x), cy: up.at(point.y) })));
  if (joined && dots.length > 1) {
    const places = dots.map(({ cx, cy }) => `${cx},${cy}`);
    parts.push(svg("polyline", { class: "line good", points: places.join(" ") }));
  }
  const named = joined ? dots.map((dot) => besideLine(dot, up, width))
    : placed(dots.map((dot) => dot.name), dots, width, taken);
  const labels = named ?? placed(dots.map((_, at) => String(at + 1)), dots, width, taken) ?? [];
  parts.push(...labels.flatMap(({ leader }) => leader ?? []));
  parts.push(...dots.map((dot) => marked(dot, up, readout)), ...labels.flatMap(({ text }) => text ?? []));
  return [drawingOf(width, HEIGHT, title, parts), ...(named ? [] : [key(dots)])];
}

// A line that falls leaves room above it to the right, and below it to the left.
function besideLine({ cx, cy, low, high, name }, up, width) {
  const ends = [cy, ...(low === undefined ? [] : [up.at(low), up.at(high)])];
  const place = cx + 6 + widthOf(name) < width ? { x: cx + 6, y: Math.min(...ends) - 10, "text-anchor": "start" }
    : { x: cx - 6, y: Math.max(...ends) + 20, "text-anchor": "end" };
  return { text: name ? svg("text", { class: "name", ...place }, name) : null };
}

const key = (dots) => el("ol", { class: "key" }, dots.map(({ name, colour }) =>
  el("li", {}, el("span", { class: `swatch ${colour}` }), el("bdi", {}, name))));

// Dots that would cover each other, side by side.
function apart(dots) {
  const done = [];
  for (const dot of dots) {
    const free = SHIFTS.map((shift) => ({ ...dot, cx: dot.cx + shift * APART })).find((moved) =>
      done.every((other) => Math.hypot(other.cx - moved.cx, other.cy - moved.cy) >= APART - 1));
    done.push(free ?? dot);
  }
  return done;
}

let pen = null;

function widthOf(text) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = "13px system-ui, sans-serif";
  return pen.measureText(text).width;
}

// The names of dots that stand above each other are a list beside them, in their order, so that no two cross. Null
// where a list finds no place that is free: then numbers will do.
function placed(texts, dots, width, before) {
  const around = ({ cx, cy }) => ({ left: cx - 7, right: cx + 7, top: cy - 7, bottom: cy + 7 });
  const taken = [...before, ...dots.map(around)];
  const found = [];
  for (const group of groups(dots.filter((_, at) => texts[at]))) {
    const names = group.map((dot) => texts[dots.indexOf(dot)]);
    const list = [1, -1].map((side) => listed(group, names, side)).find((lines) => lines.every((line_) =>
      line_.left >= LEFT - 20 && line_.right <= width && taken.every((other) => !overlap(line_, other))));
    if (!list) return null;
    taken.push(...list);
    found.push(...list);
  }
  return found;
}

// Dots whose columns touch, each group from top to bottom.
function groups(dots) {
  const found = [];
  for (const dot of [...dots].sort((a, b) => a.cx - b.cx)) {
    if (found.length && dot.cx - found.at(-1).at(-1).cx < 3 * APART) found.at(-1).push(dot);
    else found.push([dot]);
  }
  return found.map((group) => group.sort((a, b) => a.cy - b.cy || a.cx - b.cx));
}

function listed(group, names, side) {
  const edge = side > 0 ? Math.max(...group.map((dot) => dot.cx)) : Math.min(...group.map((dot) => dot.cx));
  const x = edge + side * (group.length > 1 ? 26 : 11), anchor = side > 0 ? "start" : "end";
  const ys = spreadOut(group.map((dot) => dot.cy), LINE, TOP, HEIGHT - BOTTOM - 6);
  return group.map(({ cx, cy }, at) => {
    const room = widthOf(names[at]), left = side > 0 ? x : x - room, y = ys[at];
    const far = Math.abs(cy - y) > 3 || Math.abs(cx - x) > 12;
    const bent = `${cx},${cy} ${x - side * 14},${y} ${x - side * 3},${y}`;
    return { left, right: left + room, top: y - LINE / 2 + 1, bottom: y + LINE / 2 - 1,
      leader: far ? svg("polyline", { class: "leader", points: bent }) : null,
      text: svg("text", { class: "name", x, y: y + 4.5, "text-anchor": anchor }, names[at]) };
  });
}

// Ascending places, moved as little as needed to lie a gap apart, from low to high; as bayesgram.charts does.
function spreadOut(places, gap, low, high) {
  const first = (pool) => {
    const extent = (pool.length - 1) * gap, middle = pool.reduce((sum, place) => sum + place, 0) / pool.length;
    return Math.max(low, Math.min(middle - extent / 2, high - extent));
  };
  const pools = [];
  for (const place of places) {
    pools.push([place]);
    while (pools.length > 1 && first(pools.at(-1)) < first(pools.at(-2)) + pools.at(-2).length * gap) {
      const later = pools.pop();
      pools.at(-1).push(...later);
    }
  }
  return pools.flatMap((pool) => pool.map((_, nth) => first(pool) + nth * gap));
}

const overlap = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom
  && other.top < one.bottom;

function marked(dot, up, readout) {
  const { cx, cy } = dot;
  const ends = dot.low === undefined ? [] : [up.at(dot.low), up.at(dot.high)];
  const band = ends.map((end) => line("interval", cx - 5, end, cx + 5, end));
  if (ends.length) band.push(line("interval", cx, ends[0], cx, ends[1]));
  return svg("g", heard(dot.values, readout), band, svg("circle", { class: `dot ${dot.colour}`, cx, cy, r: 6.5 }),
    svg("circle", { cx, cy, r: 12, fill: "transparent" }));
}

// Bars of the weights of public sources, with whiskers; of several orders, each under its name.
export function weights(orders, width, readout) {
  const row = 24, left = Math.min(180, Math.floor(width * 0.32)), room = width - left - 90, parts = [];
  let y = 0;
  for (const { order, weights: sources } of orders) {
    if (orders.length > 1) parts.push(label(left, (y += row) - 8, "start", `order ${order}`));
    for (const source of sources) {
      const words = `${source.name}, order ${order}: ${source.shown}.`;
      parts.push(weight(source, words, { y, row, left, room, width, readout }));
      y += row;
    }
  }
  return drawingOf(width, y + 4, "Weights of the public sources", parts);
}

function weight(source, words, { y, row, left, room, width, readout }) {
  const [low, high] = source.ends.map((end) => left + room * end), middle = y + row / 2;
  return svg("g", heard(words, readout),
    svg("rect", { x: 0, y, width, height: row, fill: "transparent" }),
    svg("text", { x: left - 10, y: middle + 5, "text-anchor": "end" }, short(source.name, left - 10),
      svg("title", {}, source.name)),
    svg("rect", { class: `dot ${source.clear ? COLOUR_OF_DATA : "part"}`, x: left, y: y + 4,
      width: room * source.weight, height: row - 8 }),
    line("halo", low - 2, middle, high + 2, middle), line("whisker", low, middle, high, middle),
    ...[low, high].map((end) => line("whisker", end, middle - 4, end, middle + 4)),
    svg("text", { class: "dimmed", x: high + 8, y: middle + 5 }, source.shown));
}

// Names often differ at their end alone.
function short(name, room) {
  if (widthOf(name) <= room) return name;
  for (let kept = name.length - 1; kept > 2; kept -= 1) {
    const cut = `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(-Math.floor(kept / 2))}`;
    if (widthOf(cut) <= room) return cut;
  }
  return "…";
}

// Bars of users by norm; hollow ones are clipped.
export function bars(bins, doubt, width, readout) {
  const row = 22, left = 110, most = Math.max(1, ...bins.map((bin) => bin.users)), room = width - left - 120;
  const step = 10 ** Math.floor(Math.log10(Math.max(doubt, 1)));
  const parts = bins.map((bin, at) => {
    const users = Math.max(bin.users, 0), length = (room * users) / most, y = at * row;
    const about = `about ${(Math.round(users / step) * step).toLocaleString("en")}`;
    const range = `${digits(bin.low)} – ${bin.high === null ? "more" : digits(bin.high)}`;
    const words = `Norm ${range}: ${about} users, ${bin.clipped ? "scaled down" : "counted in full"}.`;
    return svg("g", heard(words, readout),
      svg("rect", { x: 0, y, width, height: row, fill: "transparent" }),
      svg("text", { x: left - 10, y: y + 15, "text-anchor": "end" }, range),
      svg("rect", { class: `dot ${bin.clipped ? "part" : COLOUR_OF_DATA}`, x: left, y: y + 4, width: length,
        height: row - 8 }),
      svg("text", { class: "dimmed", x: left + 8 + length, y: y + 15 }, about));
  });
  return drawingOf(width, bins.length * row + 4, "Users by the norm of their counts", parts);
}
