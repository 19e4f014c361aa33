/* Keeps a model true: looks at the status about once a second, and reads the events meanwhile.
 *
 * A hidden page looks seldom and holds no stream: browsers allow six connections to a server, whatever the tabs.
 * After a failure both wait longer each time, and go on at once when the page is shown or the network comes back.
 */
import { Refused } from "./client.js";

const LOOK_MS = 1000;
const HIDDEN_LOOK_MS = 10000;
const LONGEST_MS = 5000;
/* events after which states differ: the status is asked for at once, so that loads and states are of one moment */
const OF_STATES = new Set(["node", "provider", "capacity"]);

export class Live {
  #stopped = false;
  #stream = null; // AbortController of the stream that is read
  #wakers = new Set();
  #wake = () => {
    if (document.hidden) this.#stream?.abort();
    for (const wake of this.#wakers) wake();
  };

  /* `changed()` is called after each change of the model, `refused()` when the Control Plane wants (another) token. */
  constructor(client, edge, model, { changed, refused }) {
    this.client = client;
    this.path = `edges/${encodeURIComponent(edge)}`;
    this.model = model;
    this.changed = changed;
    this.refused = refused;
  }

  start() {
    document.addEventListener("visibilitychange", this.#wake);
    window.addEventListener("online", this.#wake);
    this.#looking();
    this.#reading();
  }

  stop() {
    this.#stopped = true;
    document.removeEventListener("visibilitychange", this.#wake);
    window.removeEventListener("online", this.#wake);
    this.#stream?.abort();
    this.#wake();
  }

  async #looking() {
    for (let failures = 0; !this.#stopped;) {
      failures = (await this.#look()) ? 0 : failures + 1;
      await this.#pause(document.hidden ? HIDDEN_LOOK_MS : pauseAfter(failures));
    }
  }

  async #look() {
    try {
      const status = await this.client.json(`${this.path}/status`);
      if (this.#stopped) return true;
      const before = this.model.instance;
      this.model.takeStatus(status);
      if (before !== null && before !== this.model.instance) this.#stream?.abort();
      return true;
    } catch (error) {
      this.#failed(error);
      return false;
    } finally {
      if (!this.#stopped) this.changed();
    }
  }

  async #reading() {
    for (let failures = 0; !this.#stopped;) {
      if (document.hidden || this.model.status === null || this.model.stale) await this.#pause(LOOK_MS);
      else {
        failures = (await this.#read()) ? 0 : failures + 1;
        await this.#pause(pauseAfter(failures));
      }
    }
  }

  /* Read one stream to its end. The status before and after its opening is of one Edge, so the stream is of that. */
  async #read() {
    const stream = (this.#stream = new AbortController());
    const of = this.model.instance;
    try {
      const batches = await this.client.events(`${this.path}/events`, this.model.readAfter, stream.signal);
      if (!(await this.#look()) || this.model.stale || this.model.instance !== of) return false;
      this.model.streamOpened();
      for await (const events of batches) {
        if (stream.signal.aborted || this.model.instance !== of) break;
        for (const event of events) this.model.takeEvent(event);
        if (events.some((event) => OF_STATES.has(event.type))) this.#wake();
        this.changed();
      }
      return true;
    } catch {
      return false; // the looks tell why
    } finally {
      if (this.model.instance === of) this.model.streaming = false;
      stream.abort();
    }
  }

  #failed(error) {
    if (this.#stopped) return;
    if (!(error instanceof Refused)) console.error(error);
    this.model.trouble = error instanceof Refused ? error.message : "What came is not the status of an Edge.";
    if (error.status === 401) this.refused();
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#wakers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#wakers.add(wake);
    });
  }
}

function pauseAfter(failures) {
  return Math.min(LONGEST_MS, LOOK_MS * 2 ** Math.max(0, failures - 1));
}
