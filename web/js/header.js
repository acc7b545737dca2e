// @ts-check
/** The header: which model, how large, where it runs, how fast; and notes above the conversation. */

import { decodeSpeed } from "./chat.js";
import { formatBytes, formatNumber, formatSeconds, part } from "./dom.js";

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

/** @param {ModelInfo} info */
export function showModel(info) {
  showName(info.name, formatBytes(info.nBytes));
  const more = ` · ${formatCount(info.nParams)} parameters · ${info.quantisation}`;
  part("model-size").append(wideOnly(more));
  showBackend(info);
  const notes = info.hasChatTemplate ? info.notes : [...info.notes, TRANSCRIPT_NOTE];
  part("notes").replaceChildren(...notes.map(noteItem));
  part("notes").hidden = notes.length === 0;
}

/** @param {{backend: "webgpu" | "cpu", adapter: string}} where */
function showBackend({ backend, adapter }) {
  const chip = part("backend-chip");
  chip.textContent = backend === "webgpu" ? "WebGPU" : "CPU";
  if (backend === "webgpu" && adapter) chip.append(wideOnly(` · ${adapter}`));
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

/** @param {number} n */
function formatCount(n) {
  return n >= 1e9 ? `${(n / 1e9).toFixed(1)} B` : `${Math.round(n / 1e6)} M`;
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
