/* The page: which Edge is shown, how fresh it is, and when to draw. Names are text, never markup. */
import { Client, Refused } from "./client.js";
import { el, find, list, say, set, show, sign } from "./dom.js";
import { freshness, problems, situation, verdict } from "./judge.js";
import { Live } from "./live.js";
import { Model } from "./model.js";
import { showEvents, showFoot, showLine, showNodes, showTotals } from "./panels.js";
import { hueOf, showProviders } from "./slots.js";
import { lasting, name, number } from "./words.js";

const EDGES_EVERY_MS = 5000;
const SLOW_MS = 1000; // between two drawings of what is long or moves slowly
const SPOKEN_EVERY_MS = 5000;
const LOAD_SPOKEN_EVERY_MS = 20000; // full and free may take turns all day
const TOLD_RESTART_S = 60;

const client = new Client();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let live = null;
let edges = [];
let drawn = -Infinity; // when the slow parts were drawn
let wasWhole = false;
let wanted = false;
let spoken = { states: "", load: "" };
let spokenAt = -Infinity;
let nextEdges = 0;

/* ---- which Edge */

const chosen = () => {
  const asked = decodeURIComponent(location.hash.replace(/^#edge=/, ""));
  return edges.find(({ id }) => id === asked) ?? edges[0] ?? null;
};

async function lookAtEdges() {
  clearTimeout(nextEdges);
  try {
    edges = (await client.json("edges")).edges;
    showAsk(false);
    choose();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return ask();
    if (live === null) say(find("#fresh"), error.message);
  }
  clearTimeout(nextEdges);
  nextEdges = setTimeout(lookAtEdges, EDGES_EVERY_MS);
}

function choose() {
  const edge = chosen();
  list(find("#chooser ul"), edges, ({ id }) => id, ({ id }) =>
    el("li", {}, el("a", { href: `#edge=${encodeURIComponent(id)}` }, el("bdi", { class: "name" }, name(id)), el("span", { class: "muted" }))),
  (row, { id, reachable }) => {
    set(find("a", row), "aria-current", id === edge?.id ? "page" : null);
    say(find("span", row), reachable ? "" : " not reachable");
  });
  show(find("#chooser"), edges.length > 1);
  if (edge === null) return say(find("#fresh"), "The Control Plane's config names no Edge.");
  if (live?.edge === edge.id) return;
  live?.stop();
  find("#main").hidden = find("#foot").hidden = true;
  drawn = -Infinity;
  say(find("#edge"), name(edge.id));
  const model = new Model();
  live = new Live(client, edge.id, model, { changed: draw, refused: ask });
  live.edge = edge.id;
  live.start();
}

/* ---- the token */

function ask() {
  clearTimeout(nextEdges);
  live?.stop();
  live = null;
  find("#main").hidden = find("#foot").hidden = true;
  say(find("#fresh"), "a token is needed");
  set(find("#fresh"), "data-level", "note");
  if (client.token !== null) say(find("#ask-note"), "The Control Plane does not know that token.");
  client.token = null;
  showAsk(true);
}

function showAsk(visible) {
  if (find("#ask").hidden !== visible) return;
  show(find("#ask"), visible);
  if (visible) find("#token").focus();
}

find("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = find("#token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(token)) return say(find("#ask-note"), "A token has letters, digits and signs of ASCII only.");
  find("#token").value = "";
  client.token = token;
  lookAtEdges();
});

find("#forget").addEventListener("click", () => {
  client.token = null;
  ask();
  lookAtEdges();
});

/* ---- drawing: at most once a frame, however much happens */

function draw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    if (live) drawNow(live.model);
  });
}

function drawNow(model) {
  drawFreshness(model);
  if (model.status === null) return;
  show(find("#main"), true);
  show(find("#foot"), true);
  show(find("#forget"), client.token !== null);
  drawFigures(model);
  showProviders(find("#providers"), model);
  showLine(find("#line"), model);
  speak(model);
  if (performance.now() - drawn < SLOW_MS && model.caughtUp === wasWhole) return;
  drawn = performance.now();
  wasWhole = model.caughtUp;
  showNodes(find("#nodes"), model);
  showEvents(find("#events"), model, find("#notable").checked);
  showTotals(find("#totals"), model);
  showFoot(find("#foot"), model);
  drawTimeline(model);
}

function drawFreshness(model) {
  const { level, text, detail } = freshness(model);
  const chip = find("#fresh");
  if (chip.dataset.level !== level || chip.textContent !== text) {
    chip.dataset.level = level;
    chip.replaceChildren(sign(level), text);
  }
  set(document.body, "class", model.stale ? "stale" : null);
  const restarted = model.restartedAt !== null && model.now() - model.restartedAt < TOLD_RESTART_S;
  const notice = detail ?? (restarted ? `The Edge was started anew ${lasting(model.now() - model.restartedAt)} ago: its counters and its line began again.` : "");
  show(find("#notice"), notice !== "");
  say(find("#notice"), notice);
  set(find("#notice"), "data-level", detail ? "bad" : "note");
}

function drawFigures(model) {
  const { capacity, in_flight: used, queued } = model.totals();
  const oldest = model.caughtUp && model.line.size >= queued ? model.line.first(1).map(({ since }) => Math.max(0, model.clock - since))
    : model.status.models.filter((one) => one.queued).map((one) => one.oldest_wait_s);
  const figures = [
    ["slots in use", number(used), `of ${number(capacity)}`],
    ["waiting", number(queued), ""],
  ];
  if (queued && oldest.length) figures.push(["longest wait", lasting(Math.max(...oldest)), ""]);
  list(find("#figures"), figures, ([title]) => title, ([title]) => el("div", {}, el("dt", {}, title), el("dd", {}, el("b"), el("span"))),
    (row, [, value, rest]) => {
      say(find("b", row), value);
      say(find("span", row), rest && ` ${rest}`);
    });
  say(find("#verdict"), model.stale ? `When last seen: ${verdict(model)}` : verdict(model));
  list(find("#problems"), problems(model), ({ text }) => text, ({ level, text }) => el("li", { "data-level": level }, sign(level), el("span", {}, text)));
  const title = `${model.stale ? "stale: " : ""}${used}/${capacity}${queued ? `, ${queued} waiting` : ""} \u00b7 ${name(model.status.edge.id)} \u00b7 iop`;
  if (document.title !== title) document.title = title;
}

function drawTimeline(model) {
  const picture = find("#timeline");
  const hues = hueOf(model);
  const providers = model.status.provider_snapshots.map(({ provider_id: id, capacity }) => ({ id, capacity }));
  const data = model.history.data(providers, model.totals().capacity, model.clock);
  const width = picture.getBoundingClientRect().width;
  iopDrawing.timeline(picture, data, { width, height: hues.size > 6 ? 300 : 270, origin: data.to, zero: "now", title: "The last 3 minutes" });
}

/* A screen reader is told what has changed, at most every few seconds. */
function speak(model) {
  const now = performance.now();
  const { states, load } = situation(model);
  const wait = states !== spoken.states ? SPOKEN_EVERY_MS : load !== spoken.load ? LOAD_SPOKEN_EVERY_MS : Infinity;
  if (now - spokenAt < wait) return;
  say(find("#said"), `${states} ${load}`);
  spoken = { states, load };
  spokenAt = now;
}

/* ---- time passes without news, too: waits grow, and what is not fresh any more says so */

let ticked = 0;
setInterval(() => {
  const now = performance.now();
  if (document.hidden || now - ticked < (calm.matches ? 1000 : 200)) return;
  ticked = now;
  draw();
}, 200);
find("#notable").addEventListener("change", () => {
  drawn = -Infinity;
  draw();
});
window.addEventListener("hashchange", choose);
window.addEventListener("resize", () => {
  drawn = -Infinity;
  draw();
});
lookAtEdges();
