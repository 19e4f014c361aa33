/* Who waits, told by the events: in order of arrival, each with the second since which it waits.
 *
 * A request that gets a slot at once has no `queued` event; when its grant is taken back it waits since that grant.
 * Two requests may carry the same id: the earlier one is taken to be the one that an event speaks of.
 */
const MOST_HELD = 20000;

export class Line {
  #waiting = new Set();
  #back = [];
  #byId = new Map();
  #held = new Map();

  get size() {
    return this.#waiting.size + this.#back.length;
  }

  forget() {
    this.#waiting.clear();
    this.#back = [];
    this.#byId.clear();
    this.#held.clear();
  }

  /* Take one event, whose time is `at` in seconds. */
  apply(event, at) {
    const { request_id: id, model, seq } = event;
    if (id === null) return;
    if (event.type === "queued") this.#join({ id, model, seq, since: at, back: false });
    else if (event.type === "granted") this.#hold(id, this.#leave(id)?.since ?? at);
    else if (event.type === "returned") this.#join({ id, model, seq, since: this.#release(id) ?? at, back: true });
    else if (event.type === "ended") this.#release(id);
    else if (["expired", "abandoned", "refused"].includes(event.type)) this.#leave(id);
  }

  /* The first `count` waiters, earliest first: {id, model, seq, since, back}; `back`: its grant was taken back. */
  first(count) {
    const early = [...this.#back].sort((a, b) => a.since - b.since);
    const found = [];
    const others = this.#waiting.values();
    let next = others.next();
    while (found.length < count && (early.length || !next.done)) {
      if (early.length && (next.done || early[0].since <= next.value.since)) found.push(early.shift());
      else {
        found.push(next.value);
        next = others.next();
      }
    }
    return found;
  }

  #join(entry) {
    if (entry.back) this.#back.push(entry);
    else this.#waiting.add(entry);
    const same = this.#byId.get(entry.id);
    if (same) same.push(entry);
    else this.#byId.set(entry.id, [entry]);
  }

  #leave(id) {
    const entry = shift(this.#byId, id);
    if (entry && !this.#waiting.delete(entry)) this.#back.splice(this.#back.indexOf(entry), 1);
    return entry;
  }

  #hold(id, since) {
    const same = this.#held.get(id);
    if (same) same.push(since);
    else this.#held.set(id, [since]);
    if (this.#held.size > MOST_HELD) this.#held.delete(this.#held.keys().next().value);
  }

  #release(id) {
    return shift(this.#held, id);
  }
}

function shift(lists, id) {
  const list = lists.get(id);
  const first = list?.shift();
  if (list?.length === 0) lists.delete(id);
  return first;
}
