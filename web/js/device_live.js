// @ts-check
/** Timings of the reply that is being written, once a second (`?debug=1`). */

import { formatBytes, formatNumber } from "./dom.js";

/** @typedef {import("../worker/protocol.js").Report} Report */
/** @typedef {{atMs: number, tokens: number, replyTokens: number, forwardMs: number, deviceMs: number, waitMs: number, bytes: number, submits: number}} Counters */

export const LIVE_MS = 1000;

/** @param {Report} report @returns {Counters} */
export function countersOf({ details }) {
  const number = (/** @type {unknown} */ value) => (typeof value === "number" ? value : 0);
  const device = /** @type {{waitMs?: number}} */ (details.device ?? {});
  return {
    atMs: number(details.atMs),
    tokens: number(details.sessionTokens),
    replyTokens: number(details.replyTokens),
    forwardMs: number(details.forwardMs),
    deviceMs: number(details.deviceMs),
    waitMs: number(device.waitMs),
    bytes: number(details.bytesRead),
    submits: number(details.submits),
  };
}

/** @param {number} n @param {number} ms */
const rate = (n, ms) => `${formatNumber((1000 * n) / ms)} tokens/s`;

/**
 * What happened between two looks, for each token.
 * @param {Counters} before
 * @param {Counters} after
 * @returns {import("./device_facts.js").Fact[] | null} Null: nothing was computed.
 */
export function liveFacts(before, after) {
  const n = after.tokens - before.tokens;
  const wallMs = after.atMs - before.atMs;
  if (n <= 0 || wallMs <= 0) return null;
  const nReply = after.replyTokens - before.replyTokens;
  // One of a reply's tokens may have come before the first look; many more are the message's.
  const what = n <= nReply + 1 ? "Speed" : nReply > 0 ? "Message and reply" : "Reading the message";
  const gpuMs = after.waitMs - before.waitMs;
  const deviceMs = after.deviceMs - before.deviceMs;
  const perToken = (/** @type {number} */ ms) => `${formatNumber(Math.max(0, ms) / n)} ms`;
  /** @type {import("./device_facts.js").Fact[]} */
  const facts = [[what, rate(n, wallMs)]];
  if (deviceMs > 0) {
    facts.push(["Waiting for the GPU", perToken(gpuMs)]);
    facts.push(["JavaScript", perToken(deviceMs - gpuMs)]);
    facts.push(["Python", perToken(after.forwardMs - before.forwardMs - deviceMs)]);
  } else {
    facts.push(["Kernels and Python", perToken(after.forwardMs - before.forwardMs)]);
  }
  facts.push(["Text and the rest", perToken(wallMs - (after.forwardMs - before.forwardMs))]);
  facts.push(["Read back", `${formatBytes((after.bytes - before.bytes) / n)} a token`]);
  facts.push(["Submits", `${formatNumber((after.submits - before.submits) / n)} a token`]);
  return facts;
}
