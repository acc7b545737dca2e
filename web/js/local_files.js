// @ts-check
/** Files picked or dropped, as one model: a single file, or all parts of a split one. */

import { partName, partOf } from "../worker/hub.js";
import { EngineFault } from "./engine_client.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */

/**
 * @param {File[]} files In any order.
 * @returns {ModelSource}
 * Throws an EngineFault that names what is missing, or what is too much.
 */
export function localSource(files) {
  const found = files.length > 1 ? files.filter(({ name }) => /\.gguf$/i.test(name)) : files;
  const [any] = found;
  if (!any) throw fault("None of these files is a GGUF file.", "Choose a file whose name ends in .gguf.");
  const part = partOf(any.name);
  if (!part) {
    if (found.length === 1) return { kind: "file", file: any, name: any.name };
    throw fault(`${found.length} models were chosen.`, "Choose one, or all parts of one that is split.");
  }
  const byName = new Map(found.map((file) => [file.name.toLowerCase(), file]));
  const parts = [];
  const missing = [];
  for (let number = 1; number <= part.count; number++) {
    const name = partName(any.name, number);
    const file = byName.get(name.toLowerCase());
    byName.delete(name.toLowerCase());
    if (file) parts.push({ file, name });
    else missing.push(name);
  }
  if (missing.length) {
    const more = missing.length > 3 ? `, and ${missing.length - 3} more` : "";
    const names = missing.slice(0, 3).join(", ") + more;
    const which = `${missing.length} of the model's ${part.count} files`;
    throw fault(`${which} ${missing.length === 1 ? "is" : "are"} missing: ${names}.`, "Choose all of them at once.");
  }
  if (byName.size) throw fault("Files of several models were chosen.", "Choose the parts of one model.");
  const [first, ...others] = parts;
  return { kind: "file", ...first, others };
}

/** @param {string} message @param {string} hint */
function fault(message, hint) {
  return new EngineFault({ code: "bad_request", message, hint, isModelKept: true });
}
