/* Puts a model on the screen: the top each time, the panels too, and the slow ones of them once a second. */
import { el, find, list, say, set, show, sign } from "./dom.js";
import { freshness, problems, situation, verdict } from "./judge.js";
import { showEvents, showFoot, showLine, showNodes, showTotals } from "./panels.js";
import { hueOf, showProviders } from "./slots.js";
import { lasting, name, number } from "./words.js";

const SLOW_MS = 1000;
const SPOKEN_EVERY_MS = 5000;
const LOAD_SPOKEN_EVERY_MS = 20000; // full and free may take turns all day
const TOLD_RESTART_S = 60;

export class Screen {
  #drawn = -Infinity; // when the slow parts were drawn
  #wasWhole = false;
  #spoken = { states: "", load: "" };
  #spokenAt = -Infinity;

  /* Draw the slow parts, too, the next time. */
  renew() {
    this.#drawn = -Infinity;
  }

  draw(model) {
    showFreshness(model);
    if (model.status === null) return;
    show(find("#main"), true);
    show(find("#foot"), true);
    showFigures(model);
    showProviders(find("#providers"), model);
    showLine(find("#line"), model);
    this.#speak(model);
    if (performance.now() - this.#drawn < SLOW_MS && model.caughtUp === this.#wasWhole) return;
    this.#drawn = performance.now();
    this.#wasWhole = model.caughtUp;
    showNodes(find("#nodes"), model);
    showEvents(find("#events"), model, find("#notable").checked);
    showTotals(find("#totals"), model);
    showFoot(find("#foot"), model);
    showTimeline(model);
  }

  /* A screen reader is told what has changed, at most every few seconds. */
  #speak(model) {
    const now = performance.now();
    const { states, load } = situation(model);
    const wait =
      states !== this.#spoken.states ? SPOKEN_EVERY_MS : load !== this.#spoken.load ? LOAD_SPOKEN_EVERY_MS : Infinity;
    if (now - this.#spokenAt < wait) return;
    say(find("#said"), `${states} ${load}`);
    this.#spoken = { states, load };
    this.#spokenAt = now;
  }
}

function showFreshness(model) {
  const { level, text, detail } = freshness(model);
  const chip = find("#fresh");
  if (chip.dataset.level !== level || chip.textContent !== text) {
    chip.dataset.level = level;
    chip.replaceChildren(sign(level), text);
  }
  set(document.body, "class", model.stale ? "stale" : null);
  const restarted = model.restartedAt !== null && model.now() - model.restartedAt < TOLD_RESTART_S;
  const since = restarted ? lasting(model.now() - model.restartedAt) : "";
  const anew = `The Edge was started anew ${since} ago: its counters and its line began again.`;
  const notice = detail ?? (restarted ? anew : "");
  show(find("#notice"), notice !== "");
  say(find("#notice"), notice);
  set(find("#notice"), "data-level", detail ? "bad" : "note");
}

function showFigures(model) {
  const { capacity, in_flight: used, queued } = model.totals();
  const oldest =
    model.caughtUp && model.line.size >= queued
      ? model.line.first(1).map(({ since }) => Math.max(0, model.clock - since))
      : model.status.models.filter((one) => one.queued).map((one) => one.oldest_wait_s);
  const figures = [
    ["slots in use", number(used), `of ${number(capacity)}`],
    ["waiting", number(queued), ""],
  ];
  if (queued && oldest.length) figures.push(["longest wait", lasting(Math.max(...oldest)), ""]);
  list(
    find("#figures"),
    figures,
    ([title]) => title,
    ([title]) => el("div", {}, el("dt", {}, title), el("dd", {}, el("b"), el("span"))),
    (row, [, value, rest]) => {
      say(find("b", row), value);
      say(find("span", row), rest && ` ${rest}`);
    },
  );
  say(find("#verdict"), model.stale ? `When last seen: ${verdict(model)}` : verdict(model));
  list(
    find("#problems"),
    problems(model),
    ({ text }) => text,
    ({ level, text }) => el("li", { "data-level": level }, sign(level), el("span", {}, text)),
  );
  const load = `${model.stale ? "stale: " : ""}${used}/${capacity}${queued ? `, ${queued} waiting` : ""}`;
  const title = `${load} \u00b7 ${name(model.status.edge.id)} \u00b7 iop`;
  if (document.title !== title) document.title = title;
}

function showTimeline(model) {
  const picture = find("#timeline");
  const hues = hueOf(model);
  const providers = model.status.provider_snapshots.map(({ provider_id: id, capacity }) => ({ id, capacity }));
  const data = model.history.data(providers, model.totals().capacity, model.clock);
  const width = picture.getBoundingClientRect().width;
  iopDrawing.timeline(picture, data, {
    width,
    height: hues.size > 6 ? 300 : 270,
    origin: data.to,
    zero: "now",
    title: "The last 3 minutes",
  });
}
