/* Building and changing elements. Everything that is shown is set as text; nothing here makes markup of a string. */
const SVG = "http://www.w3.org/2000/svg";

export const find = (selector, inside = document) => inside.querySelector(selector);

/* Make an element: el("p", {class: "note"}, "text", child, …). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

/* Set text, class or an attribute only where it changes: what stays the same is not touched. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function set(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/* Make the children of `parent` those of `items`: one per key, kept while its key is there, in the items' order. */
export function list(parent, items, key, make, change) {
  const known = (parent.rowsByKey ??= new Map());
  const wanted = new Set();
  let place = parent.firstElementChild;
  items.forEach((item, index) => {
    const id = key(item, index);
    wanted.add(id);
    let row = known.get(id);
    if (!row) known.set(id, (row = make(item, index)));
    if (row !== place) parent.insertBefore(row, place);
    else place = place.nextElementSibling;
    change?.(row, item, index);
  });
  for (const [id, row] of known) {
    if (wanted.has(id)) continue;
    row.remove();
    known.delete(id);
  }
}

const SHAPES = {
  good: "M2.5 8.5l3.5 3.5 7-8",
  note: "M8 2.5v7M8 12.8v.7",
  warn: "M8 2L15 14H1zM8 6.5v3.5M8 12v.3",
  bad: "M3 3l10 10M13 3L3 13",
  away: "M8 2a6 6 0 1 0 .01 0z",
};

/* A small sign beside a word that says the same: good, note, warn, bad or away. */
export function sign(level) {
  const shape = svg("path", {
    d: SHAPES[level],
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 2,
    "stroke-linejoin": "round",
  });
  return svg("svg", { class: "sign", viewBox: "0 0 16 16", "aria-hidden": "true" }, shape);
}
