// What the drivers have in common: one JSON line for each thing told, the last one {"ok": …} or {"error": …}.
"use strict";

const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const facts = (error) => ({
  name: error.constructor.name,
  message: error.message,
  status: error.status ?? error.statusCode ?? null,
  code: error.code ?? null,
  type: error.type ?? null,
  body: error.responseBody ?? null,
  retryAfter: error.headers?.get?.("retry-after") ?? error.responseHeaders?.["retry-after"] ?? null,
  last: error.lastError ? facts(error.lastError) : null,
});

/** Run the case named on the command line: `node driver CASE BASE_URL SETTINGS`. */
async function main(cases) {
  const [, , name, baseURL, settings] = process.argv;
  try {
    say({ ok: (await cases[name](baseURL, JSON.parse(settings))) ?? null });
  } catch (error) {
    say({ error: facts(error) });
  }
}

module.exports = { facts, main, say };
