// @ts-check
/**
 * Conversations as files. JSON is whole and comes back; Markdown is to be read. A file is as
 * untrusted as any page: what it holds is checked piece by piece, and only known fields are taken.
 *
 * {"format": "rushlight-conversations", "version": 1, "exportedAt": ISO date, "threads": [{
 *    "id", "title", "isNamed", "createdAt", "updatedAt" (ms since 1970), "system", "options",
 *    "chosen"?: id of the first message in view,
 *    "nodes": [{"id", "parent": id or null (each after its parent), "role": "user" | "assistant",
 *               "text", "at", "chosen"?, "finish"?, "outcome"?, "model"?, "used"?}]}]}
 */

import { EngineFault } from "./engine_client.js";
import { OPTION_LIMITS } from "./sampling_fields.js";
import { Tree } from "./tree.js";

/** @typedef {import("./threads_store.js").Thread} Thread */
/** @typedef {import("./tree.js").MessageNode} MessageNode */

const FORMAT = "rushlight-conversations";
const VERSION = 1;
// More than the page itself ever wrote: what was exported comes back.
const MAX_BYTES = 256 << 20;
const MAX_THREADS = 10_000;
const MAX_NODES = 100_000;
const MAX_TEXT = 64 << 20;
const MAX_LINE = 400;
const ID = /^[\w-]{1,64}$/;
const FINISHES = ["stop", "length", "cancelled", "context_full", "error", "interrupted"];

/** @param {Thread[]} threads */
export function toJson(threads) {
  const kept = threads.map(({ version: _, ...thread }) => thread);
  const file = { format: FORMAT, version: VERSION, exportedAt: new Date().toISOString(), threads: kept };
  return JSON.stringify(file, null, 1);
}

/** @param {Thread} thread The branch in view, and no other. */
export function toMarkdown({ title, system, nodes, chosen }) {
  const parts = [`# ${title}`];
  if (system) parts.push("## Instructions", system);
  for (const { role, text } of new Tree(nodes, chosen).path) {
    parts.push(role === "user" ? "## You" : "## Reply", text);
  }
  return `${parts.join("\n\n")}\n`;
}

/** @param {string} code @param {string} message @param {string} [hint] */
function refusal(code, message, hint = "Nothing was taken from it.") {
  return new EngineFault({ code, message, hint });
}

/**
 * The conversations of a file. Throws EngineFault: import_too_large, import_not_json,
 * import_wrong_format, import_newer_version, or import_damaged with the place.
 * @param {Blob} file
 * @returns {Promise<Thread[]>}
 */
export async function readThreads(file) {
  if (file.size > MAX_BYTES) {
    throw refusal("import_too_large", `The file has ${file.size >> 20} MB; at most ${MAX_BYTES >> 20} MB are read.`);
  }
  let found;
  try {
    found = JSON.parse(await file.text());
  } catch (error) {
    console.info("Not JSON.", error);
    throw refusal("import_not_json", "This file is not JSON.", "Choose a file that this page exported as JSON.");
  }
  if (found?.format !== FORMAT) {
    const hint = "Choose a file that this page exported as JSON.";
    throw refusal("import_wrong_format", "This file holds no conversations of this page.", hint);
  }
  if (found.version !== VERSION) {
    const message = `The file has version ${String(found.version).slice(0, 20)}; this page reads version ${VERSION}.`;
    throw refusal("import_newer_version", message, "Reload the page to get its newest version.");
  }
  return list(found.threads, MAX_THREADS, "threads").map((thread, i) => readThread(thread, `threads[${i}]`));
}

/** @param {any} thread @param {string} place @returns {Thread} */
function readThread(thread, place) {
  object(thread, place);
  const nodes = list(thread.nodes, MAX_NODES, `${place}.nodes`).map((node, i) => readNode(node, `${place}.nodes[${i}]`));
  const known = new Map();
  nodes.forEach((node, i) => {
    const at = `${place}.nodes[${i}]`;
    if (known.has(node.id)) throw damaged(`${at}.id`, "is there twice");
    const parent = node.parent === null ? null : known.get(node.parent);
    if (parent === undefined) throw damaged(`${at}.parent`, "comes after it, or is missing");
    if (node.role === "assistant" && parent?.role !== "user") throw damaged(`${at}.role`, "is a reply to no message");
    known.set(node.id, node);
  });
  const chosen = new Set(nodes.filter((node) => known.get(node.chosen)?.parent === node.id));
  for (const node of nodes) {
    const parent = known.get(node.parent);
    if (!chosen.has(node)) delete node.chosen;
    if (parent && !chosen.has(parent)) parent.chosen = node.id; // the newest
  }
  if (!nodes.length) throw damaged(`${place}.nodes`, "is empty");
  const first = known.get(thread.chosen);
  return {
    id: id(thread.id, `${place}.id`),
    title: text(thread.title, MAX_LINE, `${place}.title`),
    isNamed: thread.isNamed === true,
    createdAt: time(thread.createdAt, `${place}.createdAt`),
    updatedAt: time(thread.updatedAt, `${place}.updatedAt`),
    version: 0,
    system: text(thread.system, MAX_TEXT, `${place}.system`),
    options: readOptions(thread.options, `${place}.options`),
    ...(first?.parent === null ? { chosen: first.id } : {}),
    nodes,
  };
}

/** @param {any} node @param {string} place @returns {MessageNode} */
function readNode(node, place) {
  object(node, place);
  const { role, parent, chosen, finish, outcome, model, used } = node;
  if (role !== "user" && role !== "assistant") throw damaged(`${place}.role`, "is neither user nor assistant");
  return {
    id: id(node.id, `${place}.id`),
    parent: parent === null ? null : id(parent, `${place}.parent`),
    role,
    text: text(node.text, MAX_TEXT, `${place}.text`),
    at: time(node.at, `${place}.at`),
    ...(chosen === undefined ? {} : { chosen: id(chosen, `${place}.chosen`) }),
    ...(FINISHES.includes(finish) ? { finish } : role === "assistant" ? { finish: "stop" } : {}),
    ...(outcome === undefined ? {} : { outcome: text(outcome, MAX_LINE, `${place}.outcome`) }),
    ...(model === undefined ? {} : { model: text(model, MAX_LINE, `${place}.model`) }),
    ...(Number.isSafeInteger(used) && used >= 0 ? { used } : {}),
  };
}

/** Values out of bounds are left out: they only say how to go on. @param {any} options @param {string} place */
function readOptions(options, place) {
  object(options, place);
  /** @type {import("../worker/protocol.js").ChatOptions} */
  const kept = {};
  for (const [name, [low, high]] of OPTION_LIMITS) {
    const value = options[name];
    if (typeof value === "number" && value >= low && value <= high) kept[name] = value;
  }
  return kept;
}

/** @param {string} place @param {string} what */
function damaged(place, what) {
  return refusal("import_damaged", `The file is damaged: ${place} ${what}.`);
}

/** @param {unknown} value @param {string} place */
function object(value, place) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw damaged(place, "is no object");
}

/** @param {unknown} value @param {number} most @param {string} place @returns {unknown[]} */
function list(value, most, place) {
  if (!Array.isArray(value)) throw damaged(place, "is no list");
  if (value.length > most) throw damaged(place, `has ${value.length} entries, more than ${most}`);
  return value;
}

/** @param {unknown} value @param {number} most @param {string} place */
function text(value, most, place) {
  if (typeof value !== "string") throw damaged(place, "is no text");
  if (value.length > most) throw damaged(place, `has ${value.length} characters, more than ${most}`);
  return value;
}

/** @param {unknown} value @param {string} place */
function id(value, place) {
  if (typeof value !== "string" || !ID.test(value)) throw damaged(place, "is no id");
  return value;
}

/** @param {unknown} value @param {string} place */
function time(value, place) {
  if (typeof value !== "number" || !(value >= 0 && value <= 8.64e15)) throw damaged(place, "is no time");
  return value;
}

/** Hands a file to the person. @param {string} name @param {string} type @param {string} content */
export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {string} title @param {string} ending */
export function fileName(title, ending) {
  const plain = title.replaceAll(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";
  return `${plain}.${ending}`;
}
