// Vercel's `ai` with its OpenAI-compatible provider (chat) and its OpenAI provider (responses).
// Settings: model, tokens, retries (0), provider: "compatible" | "openai", usage: whether usage is asked for.
"use strict";
const { generateText, streamText } = require("ai");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { facts, main, say } = require("./say.cjs");

function model(baseURL, s) {
  if (s.provider === "openai") return createOpenAI({ baseURL, apiKey: "none" }).responses(s.model);
  return createOpenAICompatible({ name: "iop", baseURL, apiKey: "none", includeUsage: true }).chatModel(s.model);
}

const call = (baseURL, s) => ({
  model: model(baseURL, s),
  prompt: "hello",
  maxOutputTokens: s.tokens ?? 12,
  maxRetries: s.retries ?? 0,
});

main({
  async whole(baseURL, s) {
    const answer = await generateText(call(baseURL, s));
    return { text: answer.text, finishReason: answer.finishReason, tokens: answer.usage.outputTokens };
  },
  async stream(baseURL, s) {
    const told = { text: "", errors: [], finishReason: null };
    const controller = new AbortController();
    const result = streamText({ ...call(baseURL, s), abortSignal: controller.signal, onError: () => {} });
    const wrong = (error) => told.errors.push(facts(error instanceof Error ? error : new Error(JSON.stringify(error))));
    try {
      for await (const part of result.fullStream) {
        if (part.type === "text-delta") {
          if (told.text === "") say({ first: part.text });
          told.text += part.text;
          if (s.leave) controller.abort();
        }
        if (part.type === "error") wrong(part.error);
        if (part.type === "abort") told.aborted = true;
        if (part.type === "finish")
          Object.assign(told, { finishReason: part.finishReason, tokens: part.totalUsage.outputTokens });
      }
    } catch (error) {
      wrong(error); // a cut after the error that was told
    }
    return told;
  },
});
