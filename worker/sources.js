// @ts-check
/**
 * Where model bytes come from: a Blob, or a web address read by Range. Bytes stay in JavaScript;
 * Python sees only what it asks for with `read`.
 */

import { Failure, throwIfAborted } from "./failure.js";
import { HttpSource, checkRange } from "./http_source.js";
import { StoredSource } from "./storage/stored_source.js";

/** @typedef {import("./protocol.js").ModelSource} ModelSource */
/**
 * @typedef {object} ByteSource
 * @property {string} name
 * @property {number} size
 * @property {string} note A visible fall-back, or "".
 * @property {(offset: number, n: number) => Promise<Uint8Array<ArrayBuffer>>} read Exactly n bytes, aligned.
 * @property {() => Promise<void>} open Finds out the size; to be awaited before the first read.
 * @property {() => void} abort Ends reads under way and to come with "cancelled".
 * @property {(onProgress: (done: number, total: number) => void) => Promise<void>} [complete]
 *   Stores what was not read yet, and checks the whole.
 * @property {() => void} [close]
 */

/**
 * A source that is still to be opened, which `abort` can end.
 * @param {ModelSource} origin
 * @param {() => import("./storage/stored_source.js").WholeHash} [newHash] With it, what comes from
 *   the web is stored on this device.
 * @returns {ByteSource}
 */
export function createSource(origin, newHash) {
  if (origin.kind === "file") return new BlobSource(origin.file, origin.name);
  const { url, name, nBytes, hub, token } = origin;
  // Only the hub's own origin gets the token; a redirect to another one loses it (Fetch).
  const isHubs = !!hub && new URL(url).origin === new URL(hub).origin;
  const host = new HttpSource(url, name, nBytes, isHubs ? token : "");
  return newHash ? new StoredSource(host, origin.sha256, newHash) : host;
}

/**
 * @param {ModelSource} origin
 * @returns {Promise<ByteSource>}
 */
export async function openSource(origin) {
  const source = createSource(origin);
  await source.open();
  return source;
}

/** A file that a person picked. */
export class BlobSource {
  /** @param {Blob} blob @param {string} name */
  constructor(blob, name) {
    this.blob = blob;
    this.name = name;
    this.size = blob.size;
    this.note = "";
    this.controller = new AbortController();
  }

  async open() {
    throwIfAborted(this.controller.signal);
  }

  /** @param {number} offset @param {number} n */
  async read(offset, n) {
    throwIfAborted(this.controller.signal);
    checkRange(this.name, this.size, offset, n);
    try {
      return new Uint8Array(await this.blob.slice(offset, offset + n).arrayBuffer());
    } catch (error) {
      const hint = "The file may have been moved or changed; choose it again.";
      throw new Failure("source", `Cannot read ${this.name}: ${error}`, hint);
    }
  }

  abort() {
    this.controller.abort();
  }
}
