/* What the page knows of one Edge: its last status, what the events have said since, and how old that is.
 *
 * The status is the truth. An event with a higher number than the status knows is newer than it, and is believed until
 * a status has caught up. Everything is of one Edge process (instance_id): when another answers, all is forgotten.
 */
import { History } from "./history.js";
import { Line } from "./line.js";

const KEPT_EVENTS = 60;
// seconds without a good status after which the page says so; a status comes about once a second
export const STALE_AFTER_S = 4;
const RING = 8192;
const DAILY = new Set(["queued", "granted", "ended", "direct_started", "direct_ended"]);

export class Model {
  line = new Line();
  history = new History();
  status = null;
  trouble = null; // why the last look failed; null = it did not
  streaming = false;
  restartedAt = null; // seconds of performance.now()/1000
  recent = [];
  notable = [];
  seq = null; // number of the newest event taken; null = none yet
  #newest = new Map(); // provider id, or null for the totals -> {seq, load}
  #takenAt = null; // seconds of this page's clock
  #lost = false; // events were lost: the next status says what holds

  constructor(now = () => performance.now() / 1000) {
    this.now = now;
  }

  get instance() {
    return this.status?.edge.instance_id ?? null;
  }

  /* True when what is shown is not what is: the Control Plane says so, or nothing good came for a while. */
  get stale() {
    return this.status !== null && (this.status.control.stale || this.age > STALE_AFTER_S);
  }

  /* Seconds since the shown status was true. */
  get age() {
    return this.#takenAt === null
      ? Infinity
      : this.now() - this.#takenAt + (this.status.control.stale ? this.status.control.age_s : 0);
  }

  /* The Edge's clock now, in seconds; it stands still while what is shown is stale, as the waits do. */
  get clock() {
    return (
      Date.parse(this.status.observed_at) / 1000 + (this.status.control.stale ? 0 : Math.min(this.age, STALE_AFTER_S))
    );
  }

  /* The number from which to read the events: after the newest taken, else as far back as the Edge keeps them. */
  get readAfter() {
    return this.seq ?? Math.max(0, this.status.events.last_seq - RING);
  }

  /* True when the events have said all that the status knows, so that the line is whole. */
  get caughtUp() {
    return this.streaming && (this.seq ?? 0) >= this.status.events.last_seq;
  }

  takeStatus(status) {
    if (this.status && this.instance !== status.edge.instance_id) this.#startAnew();
    this.status = status;
    this.trouble = null;
    this.#takenAt = this.now();
    const seconds = Date.parse(status.observed_at) / 1000;
    if (!status.control.stale && (!this.streaming || this.caughtUp)) {
      this.history.see(status, seconds, !this.streaming || this.#lost);
      this.#lost = false;
    }
    // at the same number both speak of the same moment: more waiters than there are were lost with a gap
    if (this.seq === status.events.last_seq && this.line.size > status.totals.queued) this.line.forget();
  }

  /* A stream of this Edge process is open, from `readAfter` on. */
  streamOpened() {
    this.streaming = true;
    this.history.resume();
    if (this.readAfter === 0) this.history.begin(Date.parse(this.status.edge.started_at) / 1000);
  }

  takeEvent(event) {
    if (event.type === "gap") {
      this.line.forget();
      this.#lost = true;
    } else if (event.seq <= (this.seq ?? 0)) return;
    this.seq = event.seq;
    const at = Date.parse(event.at) / 1000;
    this.line.apply(event, at);
    this.history.apply(event, at);
    if (event.totals) this.#newest.set(null, { seq: event.seq, load: event.totals });
    if (event.provider) this.#newest.set(event.provider_id, { seq: event.seq, load: event.provider });
    keep(this.recent, event);
    if (!DAILY.has(event.type) || event.outcome === "failed") keep(this.notable, event);
  }

  /* {capacity, in_flight, queued} now, of the pool. */
  totals() {
    return { ...this.status.totals, ...this.#newer(null) };
  }

  /* The provider snapshots, with what newer events said of their load. */
  providers() {
    return this.status.provider_snapshots.map((snapshot) => {
      const load = this.#newer(snapshot.provider_id);
      return load ? { ...snapshot, ...load, over_by: Math.max(0, load.in_flight - load.capacity) } : snapshot;
    });
  }

  #newer(id) {
    const known = this.#newest.get(id);
    return known && known.seq > this.status.events.last_seq ? known.load : null;
  }

  #startAnew() {
    this.line.forget();
    this.history.forget();
    this.#newest.clear();
    this.recent = [];
    this.notable = [];
    this.seq = null;
    this.streaming = false;
    this.restartedAt = this.now();
  }
}

function keep(list, event) {
  list.push(event);
  if (list.length > 2 * KEPT_EVENTS) list.splice(0, list.length - KEPT_EVENTS);
}
