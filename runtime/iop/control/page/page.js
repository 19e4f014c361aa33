/* The page: which Edge is shown, with which token, and when to draw. Names are text, never markup. */
import { Client, Refused } from "./client.js";
import { el, find, list, say, set, show } from "./dom.js";
import { Live } from "./live.js";
import { Model } from "./model.js";
import { Screen } from "./screen.js";
import { name } from "./words.js";

const EDGES_EVERY_MS = 5000;

const client = new Client();
const screen = new Screen();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let live = null;
let edges = [];
let nextEdges = 0;
let wanted = false;

/* ---- which Edge */

const address = (id) => `#edge=${encodeURIComponent(id)}`;
const chosen = () => edges.find(({ id }) => address(id) === location.hash) ?? edges[0] ?? null;

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
  list(
    find("#chooser ul"),
    edges,
    ({ id }) => id,
    ({ id }) =>
      el(
        "li",
        {},
        el("a", { href: address(id) }, el("bdi", { class: "name" }, name(id)), el("span", { class: "muted" })),
      ),
    (row, { id, reachable }) => {
      set(find("a", row), "aria-current", id === edge?.id ? "page" : null);
      say(find("span", row), reachable ? "" : " not reachable");
    },
  );
  show(find("#chooser"), edges.length > 1);
  if (edge === null) return say(find("#fresh"), "The Control Plane's config names no Edge.");
  if (live?.edge === edge.id) return;
  live?.stop();
  find("#main").hidden = find("#foot").hidden = true;
  screen.renew();
  say(find("#edge"), name(edge.id));
  const model = new Model();
  live = new Live(client, edge.id, model, { changed: draw, refused: ask });
  live.edge = edge.id;
  show(find("#forget"), client.token !== null);
  live.start();
}

/* ---- the token */

function ask() {
  clearTimeout(nextEdges);
  live?.stop();
  live = null;
  find("#main").hidden = find("#foot").hidden = true;
  show(find("#notice"), false);
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
  if (!/^[\x21-\x7e]+$/.test(token))
    return say(find("#ask-note"), "A token has letters, digits and signs of ASCII only.");
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
    if (live) screen.draw(live.model);
  });
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
  screen.renew();
  draw();
});
window.addEventListener("hashchange", choose);
window.addEventListener("resize", () => {
  screen.renew();
  draw();
});
lookAtEdges();
