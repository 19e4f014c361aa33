/* Says in words what the status and the events hold. Pure; every name that came from elsewhere goes through `name`. */
export const name = (text, length = 80) => globalThis.iopDrawing.plain(text, length);

export const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;

const GROUPED = new Intl.NumberFormat("en");
export const number = (count) => GROUPED.format(count);

/* A duration for people: 0.4 s, 12.3 s, 2 min 5 s, 3 h 20 min, 2 d 4 h. */
export function lasting(seconds) {
  const s = Math.max(0, seconds);
  if (s < 59.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/* An ISO time as the clock on the wall says it here; with its day when that is not today. */
export function wall(iso) {
  const date = new Date(iso);
  if (iso === null || Number.isNaN(date.getTime())) return "unknown";
  const today = date.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

const LEVELS = {
  ready: "good",
  connected: "good",
  draining: "note",
  removing: "note",
  suspect: "warn",
  down: "bad",
  offline: "away",
};
export const level = (state) => LEVELS[state] ?? "warn";

const MEANS = {
  draining: "it gets nothing new, what runs goes on",
  removing: "it left the config and ends what runs",
  suspect: "it is full and silent while requests wait",
  down: "its engine does not answer",
  offline: "its node is not connected",
};

/* Why a provider or node is in its state, in one line; null when there is nothing to say. */
export function why(state, reason) {
  const means = MEANS[state];
  if (!means) return reason ? name(reason, 200) : null;
  return reason ? `${means}: ${name(reason, 200)}` : means;
}

/* One event as a sentence. */
export function sentence(event) {
  const request = event.request_id === null ? "a request" : name(event.request_id, 40);
  const model = event.model === null ? "" : ` for ${name(event.model, 40)}`;
  const provider = name(event.provider_id ?? "?", 60);
  const node = name(event.node_id ?? "?", 60);
  const because = event.reason === null ? "" : `: ${name(event.reason, 160)}`;
  switch (event.type) {
    case "queued":
      return `${request} waits${model}`;
    case "granted":
      return `${request} got a slot of ${provider}`;
    case "returned":
      return `${request} is in line again, ${provider} had not begun${because}`;
    case "ended":
      return `${request} ${ENDED[event.outcome] ?? "ended"} on ${provider}${because}`;
    case "refused":
      return `${request} was turned away${model}${because}`;
    case "expired":
      return `${request} waited in vain${model}${because}`;
    case "abandoned":
      return `${request} left the line: its client went away`;
    case "adopted":
      return `work found running on ${provider} holds a slot`;
    case "capacity":
      return `${provider} has ${many(event.provider?.capacity ?? 0, "slot")} now`;
    case "provider":
      return `${provider} is now ${name(event.reason ?? "changed", 200)}`;
    case "node":
      return `node ${node} is now ${name(event.reason ?? "changed", 200)}`;
    case "direct_started":
      return `${request} went straight to ${node}${model}`;
    case "direct_ended":
      return `${request} ${ENDED[event.outcome] ?? "ended"} on ${node}${because}`;
    case "gap":
      return `events ${event.from} to ${event.to} were missed`;
    default:
      return `${name(event.type, 40)} ${request}${because}`;
  }
}

const ENDED = { completed: "finished", failed: "failed", cancelled: "was left by its client" };

const NOTED = new Set(["returned", "abandoned", "provider", "node", "capacity", "gap", "adopted"]);

/* Which sign an event deserves; null for what happens all day. */
export function eventLevel({ type, outcome, reason }) {
  if (outcome === "failed" || type === "refused" || type === "expired") return "bad";
  if ((type === "provider" || type === "node") && level(reason) === "good") return "good";
  return NOTED.has(type) ? "note" : null;
}
