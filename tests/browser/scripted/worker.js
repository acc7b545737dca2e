// @ts-check
/**
 * An engine that says what a test wrote for it, in place of worker/worker.js: it speaks the whole
 * protocol and starts at once. The test puts `scripted/model.json` and `scripted/replies/NAME.json`
 * beside the page (see ../scripted.py); the message "play NAME" gets that reply, "show the request"
 * what the page sent as JSON, and any other message is said back.
 */

import * as Comlink from "../vendor/comlink.mjs";
import { PROTOCOL_VERSION, answer } from "./protocol.js";

/** @typedef {import("./protocol.js").EngineApi} EngineApi */
/**
 * @typedef {object} Script
 * @property {string} text
 * @property {number} perSecond Pieces a second; 0: all at once.
 * @property {number} waitMs Before the first piece.
 * @property {boolean} holds After the last piece it waits to be stopped.
 * @property {{code: string, message: string, hint: string} | null} fault In place of the end.
 */

const sleep = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));
/** @type {() => void} */
let wake = () => {};
let isStopped = false;
/** @type {any} */
let model = null;

/** @param {string} name */
async function read(name) {
  const response = await fetch(new URL(`../scripted/${name}.json`, import.meta.url), { cache: "no-store" });
  if (!response.ok) throw new Error(`No script ${name}`);
  return response.json();
}

/** Resolves when stop() is called. */
const stopped = () =>
  new Promise((done) => {
    wake = () => done(null);
    if (isStopped) wake();
  });

/** Whole words with the space before them, long ones in parts, as a tokenizer would cut them. @param {string} text */
const piecesOf = (text) => text.match(/\s?[^\s]{1,6}|\s/gu) ?? [];

/**
 * @param {Script} script
 * @param {(piece: string) => void} onToken
 */
async function play({ text, perSecond, waitMs, holds, fault }, onToken) {
  await Promise.race([sleep(waitMs), stopped()]);
  const began = performance.now();
  const pieces = piecesOf(text);
  let said = "";
  let nSaid = 0;
  while (nSaid < pieces.length && !isStopped) {
    const due = perSecond ? ((performance.now() - began) * perSecond) / 1000 + 1 : pieces.length;
    for (; nSaid < Math.min(due, pieces.length); nSaid += 1) {
      said += pieces[nSaid];
      onToken(pieces[nSaid]);
    }
    if (nSaid < pieces.length) await sleep(4);
  }
  if (holds) await stopped();
  if (fault) throw fault;
  return { said, nSaid, decodeMs: performance.now() - began };
}

/** @type {EngineApi} */
const api = {
  boot: ({ backend }, onProgress) =>
    answer(async () => {
      model = await read("model");
      onProgress({ step: "runtime", label: "Starting Python", done: 0, total: 0 });
      if (model.bootFault) throw model.bootFault;
      const chosen = backend === "cpu" ? "cpu" : "webgpu";
      return { version: "0.1.0", protocol: PROTOCOL_VERSION, backend: chosen, adapter: "scripted", notes: [] };
    }),

  loadModel: (source, options, onProgress) =>
    answer(async () => {
      isStopped = false;
      model = await read("model");
      const { holdsAt, fault, info } = model;
      onProgress({ step: "header", label: "Opening the model", done: 0, total: 0 });
      if (holdsAt) {
        onProgress({ step: "weights", label: "Reading the weights", done: info.nBytes * holdsAt, total: info.nBytes });
        await stopped();
        throw { code: "cancelled", message: "The load was stopped.", hint: "" };
      }
      if (fault) throw fault;
      onProgress({ step: "ready", label: "Ready", done: 1, total: 1 });
      const name = source.kind === "file" && !info.name ? source.name.replace(/\.gguf$/, "") : info.name;
      const notes = model.echoesOptions ? [JSON.stringify(options)] : info.notes;
      return { ...info, name, notes };
    }),

  chat: ({ messages, options }, onToken) =>
    answer(async () => {
      isStopped = false;
      const asked = messages[messages.length - 1].content;
      const name = /^play ([\w-]+)$/.exec(asked)?.[1];
      const plain = asked === "show the request" ? `~~~\n${JSON.stringify({ messages, options })}\n~~~` : asked;
      const script = name ? await read(`replies/${name}`) : { text: plain, perSecond: 0, waitMs: 0 };
      const { said, nSaid, decodeMs } = await play(script, onToken);
      return {
        finishReason: isStopped ? "cancelled" : "stop",
        ...{ nPrompt: 24, nReused: 0, nGenerated: nSaid, nLeftOut: 0, hasExamples: true },
        ...{ prefillMs: script.waitMs + 40, decodeMs, text: said, promptText: `User: ${asked}` },
      };
    }),

  stop: () =>
    answer(() => {
      isStopped = true;
      wake();
      return null;
    }),
  reset: () => answer(() => null),
  unload: () => answer(() => null),
  storage: () => answer(() => ({ models: model?.stored ?? [], usedBytes: 0, quotaBytes: 0 })),
  deleteStored: () => answer(() => null),
  profile: () => answer(() => ({ text: "scripted" })),
  report: () =>
    answer(() => ({
      ...{ version: "0.1.0", backend: "webgpu", adapter: "scripted", heapBytes: 9e7, deviceBytes: 3e8 },
      details: {},
    })),
};

Comlink.expose(api);
