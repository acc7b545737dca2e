// @ts-check
/** The header: which model, how large, where it runs, how fast; and notes above the conversation. */

import { formatBytes, formatNumber, formatSeconds, part } from "./dom.js";
import { decodeSpeed } from "./reply.js";

/** @typedef {import("../worker/protocol.js").ModelInfo} ModelInfo */

const TRANSCRIPT_NOTE =
  "This is a base model without a chat template: the conversation is written as a plain transcript.";

/**
 * While it loads, or after it failed to.
 * @param {string} name
 * @param {string} status
 */
export function showName(name, status) {
  part("model-name").textContent = name;
  part("model-size").textContent = status;
  part("backend-chip").hidden = true;
  part("notes").hidden = true;
  showSpeed(null);
  document.title = `${name} · Rushlight`;
}

/**
 * @param {ModelInfo} info
 * @param {string[]} more Notes of the page itself.
 */
export function showModel(info, more) {
  showName(info.name, formatBytes(info.nBytes));
  const facts = ` · ${formatCount(info.nParams)} parameters · ${info.quantisation}`;
  part("model-size").append(wideOnly(facts));
  showBackend(info);
  const items = [...more, ...info.notes].map(noteItem);
  if (!info.hasChatTemplate) items.push(transcriptItem());
  part("notes").replaceChildren(...items);
  part("notes").hidden = items.length === 0;
}

/** @param {{backend: "webgpu" | "cpu", adapter: string}} where */
function showBackend({ backend, adapter }) {
  const chip = part("backend-chip");
  chip.textContent = backend === "webgpu" ? "WebGPU" : "CPU";
  if (adapter) chip.append(wideOnly(` · ${adapter}`));
  chip.title = chip.textContent ?? "";
  chip.dataset.backend = backend;
  chip.hidden = false;
}

/** @param {string} text Left out on a phone. */
function wideOnly(text) {
  const span = document.createElement("span");
  span.className = "wide";
  span.textContent = text;
  return span;
}

/** @param {string} text */
function noteItem(text) {
  const item = document.createElement("li");
  item.dataset.testid = "note";
  item.textContent = text;
  return item;
}

/** The note for a base model, which discloses the text around the conversation. */
function transcriptItem() {
  const item = noteItem(TRANSCRIPT_NOTE);
  const details = document.createElement("details");
  details.dataset.testid = "prompt";
  const summary = document.createElement("summary");
  summary.textContent = "Show the prompt";
  const text = document.createElement("pre");
  text.id = "prompt-text";
  text.tabIndex = 0;
  text.setAttribute("role", "region");
  text.setAttribute("aria-label", "The prompt of the last message");
  text.textContent = "Send a message first: what the model is given for it is shown here.";
  details.append(summary, text);
  item.append(" ", details);
  return item;
}

/** @param {string} prompt What the model was given for the last message. */
export function showPrompt(prompt) {
  const text = document.getElementById("prompt-text");
  if (text) text.textContent = prompt;
}

/** @param {number} n */
function formatCount(n) {
  if (n >= 999.5e6) return `${(n / 1e9).toFixed(1)} B`;
  if (n >= 9.95e6) return `${Math.round(n / 1e6)} M`;
  return n >= 5e4 ? `${(n / 1e6).toFixed(1)} M` : String(n);
}

/** @param {import("../worker/protocol.js").ReplyStats | null} stats Of the last reply. */
export function showSpeed(stats) {
  const speed = stats ? decodeSpeed(stats) : 0;
  part("reply-speed").replaceChildren(
    ...(speed ? [`${formatNumber(speed)} tok`, wideOnly("ens"), "/s"] : []),
  );
  part("first-token").replaceChildren(
    ...(stats?.nGenerated ? ["first ", wideOnly("after "), formatSeconds(stats.prefillMs)] : []),
  );
}
