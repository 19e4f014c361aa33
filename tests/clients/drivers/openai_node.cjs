// The official Node SDK. Settings: model, tokens, retries (0), timeout in ms.
"use strict";
const { OpenAI } = require("openai");
const { main, say } = require("./say.cjs");

const messages = [{ role: "user", content: "hello" }];
const sdk = (baseURL, s) =>
  new OpenAI({ baseURL, apiKey: s.key ?? "none", maxRetries: s.retries ?? 0, timeout: s.timeout ?? 100_000 });
const chat = (s, more) => ({ model: s.model, messages, max_tokens: s.tokens ?? (s.stop ? 200 : 12), stop: s.stop, ...more });
const responses = (s, more) => ({ model: s.model, input: "hello", max_output_tokens: s.tokens ?? 12, ...more });
const usage = { stream: true, stream_options: { include_usage: true } };

/** Read a stream; tell its first piece at once, so that a test can do something in the middle of it. */
async function read(stream) {
  const pieces = [];
  try {
    for await (const piece of stream) {
      if (pieces.push(piece) === 1) say({ first: piece });
    }
  } catch (error) {
    say({ read: pieces.slice(-1)[0] ?? null });
    throw error;
  }
  return pieces;
}

main({
  async models(baseURL, s) {
    const listed = [];
    for await (const model of sdk(baseURL, s).models.list()) listed.push(model);
    const fetched = await Promise.all(listed.map((model) => sdk(baseURL, s).models.retrieve(model.id)));
    return { listed, fetched };
  },
  async chat(baseURL, s) {
    const { data, response, request_id } = await sdk(baseURL, s).chat.completions.create(chat(s)).withResponse();
    const headers = Object.fromEntries(response.headers);
    return { text: data.choices[0].message.content, tokens: data.usage?.completion_tokens, headers, request_id };
  },
  async chatStream(baseURL, s) {
    const chunks = await read(await sdk(baseURL, s).chat.completions.create(chat(s, usage)));
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
    return { text, tokens: chunks.flatMap((chunk) => chunk.usage?.completion_tokens ?? []) };
  },
  async chatHelper(baseURL, s) {
    const stream = sdk(baseURL, s).chat.completions.stream(chat(s, usage));
    const deltas = [];
    stream.on("content", (delta) => deltas.push(delta));
    const final = await stream.finalChatCompletion();
    const { message, finish_reason } = final.choices[0];
    return { text: message.content, deltas: deltas.join(""), finish_reason, tokens: final.usage?.completion_tokens };
  },
  async responses(baseURL, s) {
    const answer = await sdk(baseURL, s).responses.create(responses(s));
    return { text: answer.output_text, status: answer.status };
  },
  async responsesStream(baseURL, s) {
    const events = await read(await sdk(baseURL, s).responses.create(responses(s, { stream: true })));
    const deltas = events.filter((event) => event.type === "response.output_text.delta");
    return { text: deltas.map((event) => event.delta).join(""), first: events[0].type, last: events.at(-1).type };
  },
  async responsesHelper(baseURL, s) {
    const stream = sdk(baseURL, s).responses.stream(responses(s));
    const deltas = [];
    stream.on("response.output_text.delta", (event) => deltas.push(event.delta));
    const final = await stream.finalResponse();
    return { text: final.output_text, deltas: deltas.join(""), status: final.status };
  },
  async leave(baseURL, s) {
    const stream = await sdk(baseURL, s).chat.completions.create(chat(s, { stream: true }));
    for await (const chunk of stream) {
      say({ first: chunk });
      break; // the SDK aborts the request when its reader breaks off
    }
    await new Promise((resolve) => process.once("SIGTERM", resolve) && setTimeout(resolve, 100_000).unref());
  },
});
