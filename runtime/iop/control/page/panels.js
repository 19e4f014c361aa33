/* The other panels: the line, the nodes with their resources, the last events, the totals with the law, the foot. */
import { el, find, list, say, set, show, sign, svg } from "./dom.js";
import { showState } from "./slots.js";
import { eventLevel, lasting, level, many, name, number, sentence, wall } from "./words.js";

const SHOWN_WAITERS = 12;
const SHOWN_EVENTS = 14;

export function showLine(root, model) {
  const { queued } = model.totals();
  const known = model.caughtUp ? model.line.first(SHOWN_WAITERS) : [];
  const lost = queued - model.line.size; // waiters of before the events that the Edge still keeps: the earliest
  const now = model.clock;
  const oldest = Math.max(...model.status.models.map((one) => one.oldest_wait_s ?? 0));
  const longest = Math.max(1, oldest, ...known.map(({ since }) => now - since));
  const rows = lost > 0 ? known.slice(0, SHOWN_WAITERS - 1) : known;
  say(find(".note", root), note(queued, model, lost, oldest));
  list(
    find("ol", root),
    rows,
    ({ seq }) => `${model.instance} ${seq}`, // another Edge process counts anew
    makeWaiter,
    (row, waiter, index) => {
      const waits = Math.max(0, now - waiter.since);
      say(find(".place", row), number(index + 1 + Math.max(0, lost)));
      say(find(".waits", row), lasting(waits));
      set(find(".bar rect", row), "width", Math.round((100 * waits) / longest));
      show(find(".again", row), waiter.back);
    },
  );
  const more = queued - Math.max(0, lost) - rows.length;
  show(find(".more", root), rows.length > 0 && more > 0);
  say(find(".more", root), `and ${number(more)} more`);
}

function note(queued, model, lost, oldest) {
  if (!queued) return "Nobody waits.";
  const per = model.status.models
    .filter((one) => one.queued)
    .map((one) => `${number(one.queued)} for ${name(one.id, 60)}`);
  const unread = "Who they are is not known yet: the events are being read.";
  if (!model.caughtUp) return `${per.join(", ")}; the longest waits ${lasting(oldest)}. ${unread}`;
  const early =
    lost > 0 ? ` The first ${number(lost)} came before the oldest event that is kept: who they are is not known.` : "";
  return `${many(queued, "request waits", "requests wait")} in order of arrival.${early}`;
}

function makeWaiter(waiter) {
  const share = svg("rect", { width: 0, height: 6, rx: 1 });
  return el(
    "li",
    { class: "waiter" },
    el("span", { class: "place muted" }),
    el("b", { class: "waits" }),
    svg("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, share),
    el("bdi", { class: "name model" }, name(waiter.model ?? "", 60)),
    el("bdi", { class: "name id muted" }, name(waiter.id, 60)),
    el("span", { class: "again muted", hidden: "" }, "again in line"),
  );
}

export function showNodes(root, model) {
  const providers = model.providers();
  list(
    find(".rows", root),
    model.status.nodes,
    ({ id }) => id,
    makeNode,
    (row, node) => {
      say(find(".alias", row), node.alias && node.alias !== node.id ? name(node.alias) : "");
      showState(find(".state", row), node.state);
      say(find(".since", row), node.since === null ? "" : `since ${wall(node.since)}`);
      show(find(".why", row), node.drain !== null);
      say(find(".why", row), node.drain === null ? "" : drained(node.drain));
      list(
        find(".resources", row),
        resources(
          node,
          providers.filter(({ node_id: id }) => id === node.id),
        ),
        ({ key }) => key,
        makeResource,
        changeResource,
      );
    },
  );
}

const drained = ({ reason, left_s: left }) =>
  `drained: ${name(reason ?? "no reason given", 160)} (ends by itself in ${lasting(left)})`;

function makeNode(node) {
  return el(
    "li",
    { class: "node" },
    el(
      "div",
      { class: "who" },
      el("h3", {}, el("bdi", { class: "name" }, name(node.id))),
      el("bdi", { class: "name muted alias" }),
      el("span", { class: "state" }),
      el("span", { class: "since muted" }),
    ),
    el("p", { class: "why", hidden: "" }),
    el("ul", { class: "resources" }),
  );
}

/* What a node has, beside each other: its providers, and the agents of its CLI adapter, which have no slots. */
function resources(node, providers) {
  const found = providers.map((provider) => ({
    key: `p ${provider.provider_id}`,
    kind: "provider",
    what: name(provider.provider_id, 60),
    text: [
      provider.state === "ready" ? "" : provider.state,
      `${number(provider.in_flight)}/${number(provider.capacity)} slots`,
      name(provider.type ?? "", 40),
    ]
      .filter(Boolean)
      .join(" \u00b7 "),
    sort: level(provider.state),
  }));
  for (const adapter of node.adapters.filter(({ type }) => type === "cli")) {
    for (const target of adapter.targets) {
      const ready = target.ready === null ? "not known yet" : target.ready ? "ready" : "cannot run";
      found.push({
        key: `a ${adapter.name} ${target.name}`,
        kind: "CLI agent",
        what: name(target.name, 60),
        text: `${ready} \u00b7 no limit`,
        sort: target.ready === false ? "bad" : "good",
      });
    }
    const { in_flight: running, completed, failed } = node.direct;
    found.push({
      key: "direct",
      kind: "direct route",
      what: "",
      sort: "good",
      text: [`${number(running)} running`, `${number(completed)} finished`, failed ? `${number(failed)} failed` : ""]
        .filter(Boolean)
        .join(" \u00b7 "),
    });
  }
  return found;
}

const makeResource = ({ kind, what }) =>
  el(
    "li",
    {},
    el("span", { class: "kind muted" }, kind),
    el("bdi", { class: "name" }, what),
    el("span", { class: "text" }),
  );

function changeResource(row, { text, sort }) {
  say(find(".text", row), text);
  set(row, "data-level", sort);
}

export function showEvents(root, model, onlyNotable) {
  const shown = (onlyNotable ? model.notable : model.recent).slice(-SHOWN_EVENTS).reverse();
  const rows = shown.length ? shown : [null];
  list(
    find("ol", root),
    rows,
    (event) => (event ? `${model.instance} ${event.seq}` : `none ${model.streaming}`),
    (event) => {
      if (event === null)
        return el("li", { class: "muted" }, model.streaming ? "None yet." : "The events are not being read.");
      const sort = eventLevel(event);
      return el(
        "li",
        { "data-level": sort },
        el("time", { datetime: event.at, class: "muted" }, wall(event.at)),
        sort ? sign(sort) : el("span"),
        el("bdi", { class: "name" }, sentence(event)),
      );
    },
  );
}

/* The law as two sums that must come out even; whether they do was checked by the Control Plane. */
export function showTotals(root, model) {
  const { totals, control, edge } = model.status;
  const held = control.violations.length === 0;
  const line = find(".law", root);
  if (line.dataset.held !== String(held)) {
    line.dataset.held = String(held);
    line.dataset.level = held ? "good" : "bad";
    line.replaceChildren(
      sign(held ? "good" : "bad"),
      el("b", {}, held ? "The law holds:" : "The law is broken:"),
      held ? " no request and no slot is lost or made up." : " a request or a slot is lost or made up.",
    );
  }
  list(
    find(".broken", root),
    control.violations,
    (text) => text,
    (text) => el("li", {}, name(text, 300)),
  );
  const sums = [
    [
      "received",
      totals.received,
      ["refused", "expired", "abandoned", "queued"],
      ["given a slot", totals.admitted - totals.returned],
    ],
    [
      "slots given",
      totals.admitted + totals.adopted,
      ["completed", "failed", "cancelled", "returned", "in_flight"],
      null,
    ],
  ];
  list(
    find(".sums", root),
    sums,
    ([title]) => title,
    makeSum,
    (row, [, total, keys, extra]) => {
      const counts = [total, ...keys.map((key) => totals[key]), ...(extra ? [extra[1]] : [])];
      counts.forEach((count, index) => say(row.querySelectorAll("dd")[index], number(count)));
    },
  );
  set(root, "data-since", wall(edge.counting_since));
}

function makeSum([title, , keys, extra]) {
  const words = [title, ...keys, ...(extra ? [extra[0]] : [])];
  return el(
    "dl",
    { class: "sum" },
    ...words.map((word) => el("div", {}, el("dt", {}, word.replace("_", " ")), el("dd"))),
  );
}

export function showFoot(root, model) {
  const { edge, config, observed_at: seen } = model.status;
  const facts = [
    ["Edge", `${name(edge.id)}, version ${name(edge.version)}, release ${name(edge.release_id)}`],
    ["Counting since", wall(edge.counting_since)],
    ["Config", `generation ${config.generation}, applied ${wall(config.applied_at)}, ${name(config.source, 200)}`],
    ["Status of", wall(seen)],
  ];
  list(
    find("dl", root),
    facts,
    ([title]) => title,
    ([title]) => el("div", {}, el("dt", {}, title), el("dd")),
    (row, [, text]) => say(find("dd", row), text),
  );
}
