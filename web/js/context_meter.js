// @ts-check
/** How much of the context the conversation takes, under the message field. */

import { part } from "./dom.js";

/** From this share on the end is near enough to say so. */
const NEARLY_FULL = 0.85;

/**
 * @param {number} used Tokens, after the last reply; 0: not known.
 * @param {number} nCtx Tokens that the context holds; 0: no model is loaded.
 */
export function showContext(used, nCtx) {
  const meter = part("context-used");
  meter.hidden = !used || !nCtx;
  const isNear = used >= nCtx * NEARLY_FULL;
  meter.dataset.level = isNear ? "near" : "calm";
  const count = `${used.toLocaleString("en")} of ${nCtx.toLocaleString("en")} tokens`;
  meter.textContent = isNear ? `${count}: soon the oldest messages are left out` : count;
}
