// Drawings with a logarithmic axis across; every mark can be reached by mouse and keyboard, and says its values.

import { digits, svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 320, LEFT = 64, RIGHT = 24, TOP = 40, BOTTOM = 48;

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

export function linearAxis(high, from, to, ticks) {
  return { at: (value) => from + ((to - from) * value) / high, ticks };
}

const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });

// points: {x, y, low?, high?, colour, name, values}; values is what the readout says.
export function plane({ title, points, x, y, xName, yName, yText = digits, dashed = null, joined = false, readout }) {
  const across = x(LEFT, WIDTH - RIGHT), up = y(HEIGHT - BOTTOM, TOP);
  const parts = [
    ...up.ticks.map((tick) => line("grid", LEFT, up.at(tick), WIDTH - RIGHT, up.at(tick))),
    ...up.ticks.map((tick) => label(LEFT - 8, up.at(tick) + 4, "end", yText(tick))),
    ...across.ticks.map((tick) => label(across.at(tick), HEIGHT - BOTTOM + 18, "middle", digits(tick))),
    label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", xName),
    label(0, 14, "start", yName),
  ];
  if (dashed) {
    parts.push(line("dashed", LEFT, up.at(dashed.y), WIDTH - RIGHT, up.at(dashed.y)));
    parts.push(label(WIDTH - RIGHT, up.at(dashed.y) - 6, "end", dashed.name));
  }
  if (joined && points.length > 1) {
    const places = points.map((point) => `${across.at(point.x)},${up.at(point.y)}`);
    parts.push(svg("polyline", { class: "line good", points: places.join(" ") }));
  }
  parts.push(...points.map((point) => dot(point, across, up, readout)));
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": title }, parts);
}

const label = (x, y, anchor, text) => svg("text", { class: "dimmed", x, y, "text-anchor": anchor }, text);

function dot(point, across, up, readout) {
  const cx = across.at(point.x), cy = up.at(point.y);
  const ends = point.low === undefined ? [] : [up.at(point.low), up.at(point.high)];
  const band = ends.map((end) => line("interval", cx - 5, end, cx + 5, end));
  if (ends.length) band.push(line("interval", cx, ends[0], cx, ends[1]));
  const say = () => { readout.textContent = point.values; };
  const near = cx > WIDTH - 170 ? [cx - 11, "end"] : [cx + 11, "start"];
  const name = point.name ? [svg("text", { x: near[0], y: cy - 8, "text-anchor": near[1] }, point.name)] : [];
  const heard = { tabindex: 0, role: "img", "aria-label": point.values, onmouseenter: say, onfocus: say, onclick: say };
  return svg("g", heard, band, svg("circle", { class: `dot ${point.colour}`, cx, cy, r: 6.5 }),
    svg("circle", { cx, cy, r: 16, fill: "transparent" }), name);
}

// Bars of the weights of public sources, with whiskers; of several orders, each under its name.
export function weights(orders, readout) {
  const row = 24, left = 180, room = WIDTH - left - 120, parts = [];
  let y = 0;
  for (const { order, weights: sources } of orders) {
    if (orders.length > 1) parts.push(label(left, (y += row) - 8, "start", `order ${order}`));
    for (const source of sources) {
      parts.push(weight(source, `${source.name}, order ${order}: ${source.shown}.`, { y, row, left, room, readout }));
      y += row;
    }
  }
  const told = { role: "group", "aria-label": "Weights of the public sources" };
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${y + 4}`, ...told }, parts);
}

function weight(source, words, { y, row, left, room, readout }) {
  const [low, high] = source.ends.map((end) => left + room * end), middle = y + row / 2;
  const say = () => { readout.textContent = words; };
  return svg("g", { tabindex: 0, role: "img", "aria-label": words, onmouseenter: say, onfocus: say },
    svg("rect", { x: 0, y, width: WIDTH, height: row, fill: "transparent" }),
    svg("text", { x: left - 10, y: middle + 5, "text-anchor": "end" }, short(source.name),
      svg("title", {}, source.name)),
    svg("rect", { class: `dot ${source.clear ? "good" : "mute"}`, x: left, y: y + 4, width: room * source.weight,
      height: row - 8 }),
    line("whisker", low, middle, high, middle),
    ...[low, high].map((end) => line("whisker", end, middle - 4, end, middle + 4)),
    svg("text", { class: "dimmed", x: high + 8, y: middle + 5 }, source.shown));
}

// Names often differ at their end alone.
const short = (name) => (name.length > 14 ? `${name.slice(0, 7)}…${name.slice(-6)}` : name);

// Bars of users by norm; light ones are clipped.
export function bars(bins, doubt, readout) {
  const row = 22, most = Math.max(1, ...bins.map((bin) => bin.users)), room = WIDTH - 300;
  const step = 10 ** Math.floor(Math.log10(Math.max(doubt, 1)));
  const parts = bins.map((bin, at) => {
    const users = Math.max(bin.users, 0), length = (room * users) / most, y = at * row;
    const about = `about ${(Math.round(users / step) * step).toLocaleString("en")}`;
    const range = `${digits(bin.low)} – ${bin.high === null ? "more" : digits(bin.high)}`;
    const words = `Norm ${range}: ${about} users, ${bin.clipped ? "scaled down" : "counted in full"}.`;
    const say = () => { readout.textContent = words; };
    return svg("g", { tabindex: 0, role: "img", "aria-label": words, onmouseenter: say, onfocus: say },
      svg("rect", { x: 0, y, width: WIDTH, height: row, fill: "transparent" }),
      svg("text", { x: 130, y: y + 15, "text-anchor": "end" }, range),
      svg("rect", { class: `dot ${bin.clipped ? "mute" : "good"}`, x: 140, y: y + 4, width: length, height: row - 8 }),
      svg("text", { class: "dimmed", x: 148 + length, y: y + 15 }, about));
  });
  const told = { role: "group", "aria-label": "Users by the norm of their counts" };
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${bins.length * row + 4}`, ...told }, parts);
}
