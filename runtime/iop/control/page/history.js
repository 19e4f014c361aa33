/* The last minutes as the timeline draws them: slots in use per provider and waiters, from the events.
 *
 * A bucket of a quarter of a second keeps its fullest moment and its last one, so that a thousand events a second cost
 * no more than four, and no peak is lost.
 */
const STEP_S = 0.25;
export const WINDOW_S = 180;
// what an event did to its provider's count, so that what was there before it is known too
const DID = { granted: 1, adopted: 1, ended: -1, returned: -1 };

export class History {
  #buckets = [];
  #now = {};
  #queued = 0;
  #capacity = null;

  forget() {
    this.#buckets = [];
    this.#now = {};
    this.#queued = 0;
    this.#capacity = null;
  }

  /* Take an event whose time is `at` in seconds. */
  apply(event, at) {
    if (event.provider && event.provider_id !== null) {
      const used = event.provider.in_flight;
      if (!(event.provider_id in this.#now)) this.#backfill(event.provider_id, used - (DID[event.type] ?? 0));
      this.#now[event.provider_id] = used;
    }
    if (event.totals) {
      this.#queued = event.totals.queued;
      this.#capacity = event.totals.capacity;
      this.#keep(at);
    }
  }

  /* Nothing ran at `at` (seconds): the Edge began. */
  begin(at) {
    if (!this.#buckets.length) this.#keep(at);
  }

  /* Events are read again from where they were left: what the looks guessed meanwhile is replaced by what happened. */
  resume() {
    while (this.#buckets.at(-1)?.guess) this.#buckets.pop();
    const newest = this.#buckets.at(-1);
    this.#now = newest ? { ...(newest.last ?? newest.high.inFlight) } : {};
  }

  /* Take a status read at `at`: it knows of providers that no event spoke of, and everything when `alone`. */
  see(status, at, alone) {
    const there = new Set();
    for (const { provider_id: id, in_flight: used } of status.provider_snapshots) {
      there.add(id);
      if (!(id in this.#now)) this.#backfill(id, used);
      if (alone || !(id in this.#now)) this.#now[id] = used;
    }
    for (const id of Object.keys(this.#now)) if (!there.has(id)) delete this.#now[id];
    if (!alone && this.#buckets.length) return;
    this.#queued = status.totals.queued;
    this.#capacity = status.totals.capacity;
    this.#keep(at, alone);
  }

  /* What the drawing wants, up to `to` (seconds); `from` a whole window earlier. */
  data(providers, capacity, to) {
    const points = [];
    for (const bucket of this.#buckets) {
      points.push({ at: bucket.at, ...bucket.high, queued: bucket.queued, capacity: bucket.capacity });
      if (bucket.last)
        points.push({ at: bucket.until, inFlight: bucket.last, queued: bucket.lastQueued, capacity: bucket.capacity });
    }
    return { from: to - WINDOW_S, to, capacity, providers, points };
  }

  #backfill(id, used) {
    for (const bucket of this.#buckets) {
      bucket.high.inFlight[id] = used;
      if (bucket.last) bucket.last[id] = used;
    }
  }

  #keep(given, guess = false) {
    const newest = this.#buckets.at(-1);
    const at = Math.max(given, newest?.until ?? -Infinity); // the Edge's clock may be set back
    const used = Object.values(this.#now).reduce((sum, n) => sum + n, 0);
    if (newest && at < newest.at + STEP_S) {
      if (used > newest.used) Object.assign(newest, { used, high: { inFlight: { ...this.#now } } });
      newest.queued = Math.max(newest.queued, this.#queued);
      Object.assign(newest, {
        until: at,
        guess,
        last: { ...this.#now },
        lastQueued: this.#queued,
        capacity: this.#capacity,
      });
      return;
    }
    this.#buckets.push({
      at,
      until: at,
      used,
      high: { inFlight: { ...this.#now } },
      queued: this.#queued,
      capacity: this.#capacity,
      last: null,
      lastQueued: 0,
      guess,
    });
    // the last one before the window stays: it says what held when the window began
    while (this.#buckets.length > 1 && this.#buckets[1].at < at - WINDOW_S) this.#buckets.shift();
  }
}
