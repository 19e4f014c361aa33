/* Providers as rows of slots. One cell is one slot; of a large provider one cell is some of them, and says so. */
import { el, find, list, say, set, show, sign, svg } from "./dom.js";
import { lasting, level, name, number, why } from "./words.js";

const MOST_CELLS = 64;
const [WIDE, TALL, GAP] = [34, 20, 5];

export function showProviders(root, model) {
  const hues = hueOf(model);
  list(
    find(".rows", root),
    model.providers(),
    ({ provider_id: id }) => id,
    make,
    (row, provider) => change(row, provider, hues),
  );
}

/* Which colour a provider has, here and in the timeline: its place in the status. */
export function hueOf(model) {
  return new Map(model.status.provider_snapshots.map(({ provider_id: id }, index) => [id, (index % 8) + 1]));
}

function make(provider) {
  const title = el("h3", {}, el("bdi", { class: "name" }, name(provider.provider_id)));
  return el(
    "li",
    { class: "provider" },
    el("div", { class: "who" }, title, el("span", { class: "state" }), el("span", { class: "muted on" })),
    el("p", { class: "count" }, el("b"), el("span", { class: "muted" })),
    svg("svg", { class: "slots", "aria-hidden": "true" }),
    el("p", { class: "why", hidden: "" }),
  );
}

function change(row, provider, hues) {
  const { state, reason, capacity, in_flight: used, over_by: over } = provider;
  set(row, "data-state", state);
  set(row, "data-hue", hues.get(provider.provider_id));
  showState(find(".state", row), state);
  say(
    find(".on", row),
    [`on ${name(provider.node_id)}`, provider.models.map((model) => name(model, 60)).join(", ")]
      .filter(Boolean)
      .join(" \u00b7 "),
  );
  const each = drawSlots(find(".slots", row), Math.max(capacity, used), used, capacity);
  say(find(".count b", row), `${number(used)} of ${number(capacity)}`);
  const oldest = provider.oldest_in_flight_s;
  say(
    find(".count span", row),
    [
      " in use",
      over ? `, ${number(over)} over` : "",
      oldest !== null && used ? ` \u00b7 longest ${lasting(oldest)}` : "",
      each > 1 ? ` \u00b7 a cell is ${each} slots` : "",
    ].join(""),
  );
  const because = why(state, reason);
  const line = find(".why", row);
  show(line, because !== null);
  say(line, because ?? "");
}

export function showState(place, state) {
  if (place.dataset.state === state) return;
  place.dataset.state = state;
  place.dataset.level = level(state);
  place.replaceChildren(sign(level(state)), name(state, 20));
}

/* Draw `count` slots, `used` of them full, those after `capacity` over it. Returns how many slots a cell is. */
function drawSlots(picture, count, used, capacity) {
  const each =
    count <= MOST_CELLS
      ? 1
      : ([2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => count / n <= MOST_CELLS) ?? Math.ceil(count / MOST_CELLS));
  const cells = Math.ceil(count / each);
  const wide = cells > 32 ? WIDE / 2 - 3 : cells > 16 ? WIDE / 2 : WIDE,
    gap = cells > 16 ? GAP - 2 : GAP;
  const asked = `${cells}/${each}/${count}`;
  if (picture.dataset.drawn !== asked) {
    picture.dataset.drawn = asked;
    build(picture, cells, wide, gap);
  }
  for (let i = 0; i < cells; i += 1) {
    const first = i * each,
      holds = Math.min(each, count - first);
    const full = Math.max(0, Math.min(holds, used - first));
    const [cell, level] = picture.children[i].children;
    set(cell, "class", first >= capacity ? "cell over" : "cell");
    set(level, "class", full ? (first + full > capacity ? "fill over" : "fill") : "fill empty");
    const height = full ? Math.max(4, Math.round((TALL * full) / holds)) : TALL;
    set(level, "height", height);
    set(level, "y", Number(level.dataset.top) + TALL - height);
  }
  return each;
}

function build(picture, cells, wide, gap) {
  const across = Math.min(cells, 32),
    rows = Math.ceil(cells / across);
  const width = across * (wide + gap) - gap,
    height = rows * (TALL + gap) - gap;
  const frame = { width: width + 2, height: height + 2, viewBox: `-1 -1 ${width + 2} ${height + 2}` };
  for (const [key, value] of Object.entries(frame)) set(picture, key, value);
  picture.replaceChildren(
    ...Array.from({ length: cells }, (_, i) => {
      const x = (i % across) * (wide + gap),
        y = Math.floor(i / across) * (TALL + gap);
      const shape = { x, y, width: wide, height: TALL, rx: 3 };
      return svg(
        "g",
        {},
        svg("rect", { ...shape, class: "cell" }),
        svg("rect", { ...shape, class: "fill empty", "data-top": y }),
      );
    }),
  );
}
