/* Asks the Control Plane: JSON and event streams, with a token when one is needed. */
const KEY = "iop.token";
// the Control Plane gives an Edge 2 s
const TIMEOUT_MS = 8000;
// a comment comes at least every 15 s
const SILENCE_MS = 45000;

/* The answer was not what was asked for: `status` is its HTTP status, 0 when nothing answered. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export class Client {
  #memory = null; // where the browser keeps nothing for a page

  get token() {
    try {
      return sessionStorage.getItem(KEY);
    } catch {
      return this.#memory;
    }
  }

  set token(value) {
    this.#memory = value;
    try {
      if (value === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, value);
    } catch {
      // it lives as long as the page
    }
  }

  async json(path) {
    const response = await this.#get(path, {}, AbortSignal.timeout(TIMEOUT_MS));
    try {
      return await response.json();
    } catch {
      throw new Refused("The Control Plane's answer broke off.", 0);
    }
  }

  /* Open an event stream after number `after`; resolves when it is open, to an iterable of lists of events. */
  async events(path, after, signal) {
    const headers = { accept: "text/event-stream", "last-event-id": String(after) };
    const response = await this.#get(path, headers, signal);
    return read(response.body.getReader());
  }

  async #get(path, headers, signal) {
    const token = this.token;
    const sent = token ? { ...headers, authorization: `Bearer ${token}` } : headers;
    let response;
    try {
      response = await fetch(path, {
        headers: sent,
        signal,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
      });
    } catch {
      throw new Refused("The Control Plane does not answer.", 0);
    }
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    throw new Refused(body?.error?.message ?? `The Control Plane answered ${response.status}.`, response.status);
  }
}

/* Read server-sent events; what arrives together is yielded together. Ends with the stream, or after long silence. */
async function* read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await unlessSilent(reader);
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop();
      yield blocks.map(parse).filter((event) => event !== null);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function unlessSilent(reader) {
  let timer;
  const silence = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ done: true }), SILENCE_MS);
  });
  return Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
}

function parse(block) {
  const data = block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5));
  return data.length ? JSON.parse(data.join("\n")) : null;
}
