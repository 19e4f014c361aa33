/* What is full, what waits and what is wrong: the first things to read. Pure, over a model. */
import { lasting, level, many, name, wall, why } from "./words.js";

const MOST_SAID = 12;

/* One sentence on the pool. */
export function verdict(model) {
  const { capacity, in_flight: used, queued } = model.totals();
  const ready = model.providers().filter((provider) => provider.state === "ready");
  const open = ready.reduce((sum, provider) => sum + provider.capacity, 0);
  const free = ready.reduce((sum, provider) => sum + Math.max(0, provider.capacity - provider.in_flight), 0);
  const away = open < capacity ? ` ${open} of ${many(capacity, "slot")} take work.` : "";
  if (capacity === 0) return "There are no providers.";
  if (open === 0)
    return queued
      ? `No provider takes work; ${many(queued, "request waits", "requests wait")}.`
      : "No provider takes work.";
  if (queued && free)
    return `${many(queued, "request waits", "requests wait")} for a model whose providers are full or away.${away}`;
  if (queued) return `Full: ${many(queued, "request waits", "requests wait")} in line.${away}`;
  if (free === 0) return `Full: the next request waits in line.${away}`;
  return `${used ? "" : "Idle: "}${many(free, "slot is", "slots are")} free.${away}`;
}

/* What is wrong or out of the ordinary, worst first: [{level, text}]; that nothing is, only while that is known. */
export function problems(model) {
  const { status } = model;
  const found = [
    ...status.control.violations.map((text) => ({ level: "bad", text: `The law is broken: ${name(text, 300)}` })),
    ...anomalies(status),
    ...ofProviders(model),
    ...ofNodes(status),
    ...ofConfig(status),
    ...strangers(status),
  ];
  if (model.stale) found.unshift({ level: "bad", text: "What is wrong now is not known: the picture is stale." });
  if (!found.length) return [{ level: "good", text: "Nothing is wrong." }];
  const order = ["bad", "away", "warn", "note"];
  found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const more = found.length - MOST_SAID;
  return more > 0 ? [...found.slice(0, MOST_SAID), { level: "note", text: `and ${more} more` }] : found;
}

function anomalies({ anomalies: counts }) {
  return Object.entries(counts)
    .filter(([, count]) => count)
    .map(([what, count]) => ({
      level: "bad",
      text: `Must not happen, and did ${many(count, "time")}: ${what.replaceAll("_", " ")}`,
    }));
}

function ofProviders(model) {
  const found = [];
  for (const { provider_id: id, state, reason, over_by: over } of model.providers()) {
    if (state !== "ready") found.push({ level: level(state), text: `${name(id)} is ${state}: ${why(state, reason)}` });
    else if (reason) found.push({ level: "note", text: `${name(id)}: ${name(reason, 200)}` });
    if (over)
      found.push({
        level: "note",
        text: `${name(id)} holds ${many(over, "slot")} more than its capacity, until they end`,
      });
  }
  return found;
}

function ofNodes({ nodes, provider_snapshots: providers, edge }) {
  const found = [];
  const serving = new Set(providers.map((provider) => provider.node_id));
  for (const node of nodes) {
    // of a node with providers, those have said it
    if (!serving.has(node.id) && node.state !== "connected")
      found.push({ level: level(node.state), text: `Node ${name(node.id)} is ${node.state}` });
    if (node.connected && node.release_id !== edge.release_id) {
      found.push({
        level: "note",
        text: `${name(node.id)} runs release ${name(node.release_id ?? "unknown")}, the Edge ${name(edge.release_id)}`,
      });
    }
    for (const adapter of node.adapters) {
      for (const target of adapter.targets.filter(({ ready }) => ready === false)) {
        const because = name(target.reason ?? "no reason told", 200);
        found.push({ level: "warn", text: `Agent ${name(target.name)} of ${name(node.id)} cannot run: ${because}` });
      }
    }
  }
  return found;
}

function ofConfig({ config }) {
  return config.last_error === null
    ? []
    : [{ level: "warn", text: `The last config was refused: ${name(config.last_error, 300)}` }];
}

function strangers({ turned_away: list }) {
  return list.slice(0, 5).map(({ node_id: node, code, peer, count, last_at: last }) => {
    const who = `${name(node ?? "a node without a name")} from ${name(peer)}`;
    return { level: "note", text: `Turned away ${many(count, "time")}: ${who} (${name(code)}, last ${wall(last)})` };
  });
}

/* What a screen reader is told when it changes, in two sentences: states, and full or not; never single slots. */
export function situation(model) {
  const providers = model.providers();
  const ready = providers.filter(({ state }) => state === "ready");
  const full = ready.length > 0 && ready.every((provider) => provider.in_flight >= provider.capacity);
  const others = providers
    .filter(({ state }) => state !== "ready")
    .map(({ provider_id: id, state }) => `${name(id)} is ${state}`);
  return {
    states: `${model.stale ? "The picture is stale. " : ""}${others.join(", ") || "All providers are ready"}.`,
    load: model.totals().queued
      ? "Requests are waiting."
      : full
        ? "All slots are in use."
        : ready.length
          ? "Slots are free."
          : "",
  };
}

/* {text, level, detail} of how fresh the picture is. */
export function freshness(model) {
  const { status, trouble } = model;
  if (status === null)
    return { level: "warn", text: "no status yet", detail: trouble === null ? null : name(trouble, 300) };
  const told = wall(status.observed_at);
  if (status.control.stale) {
    const because = status.control.trouble ? ` (${name(status.control.trouble, 200)})` : "";
    return {
      level: "bad",
      text: "stale",
      detail: `The Edge does not answer${because}. This is what it said ${lasting(model.age)} ago, at ${told}.`,
    };
  }
  if (model.stale) {
    const because = trouble ? name(trouble, 200) : "Nothing comes from the Control Plane.";
    return {
      level: "bad",
      text: "stale",
      detail: `${because} This is how it was ${lasting(model.age)} ago, at ${told}. The page keeps trying.`,
    };
  }
  return { level: "good", text: model.streaming ? "live" : "fresh each second", detail: null };
}
