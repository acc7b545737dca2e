// @ts-check
/** A model as one source: its first file, and the others that it may be split over. */

import { Failure, throwIfAborted } from "./failure.js";
import { partName, partOf, pinned } from "./hub.js";
import { createSource } from "./sources.js";
import { listModels } from "./storage/model_store.js";

/** @typedef {import("./protocol.js").ModelSource} ModelSource */
/** @typedef {import("./sources.js").ByteSource} ByteSource */
/** @typedef {(() => import("./storage/stored_source.js").WholeHash) | undefined} NewHash */

export class ModelParts {
  /** @type {ByteSource[]} Opened, or about to be. */
  #sources = [];
  #controller = new AbortController();
  #note = "";
  /** Sizes and hashes of further parts, by address. @type {import("./hub.js").Pinned["known"]} */
  #known = new Map();

  /** @param {ModelSource} origin @param {NewHash} newHash */
  constructor(origin, newHash) {
    this.origin = origin;
    this.newHash = newHash;
  }

  get note() {
    return [this.#note, ...this.#sources.map(({ note }) => note)].filter(Boolean).join(" ");
  }

  /** Opens the first file. @returns {Promise<ByteSource & {openPart: (name: string) => Promise<ByteSource>}>} */
  async open() {
    if (this.origin.kind === "url" && this.origin.hub) {
      const { signal } = this.#controller;
      const { source, known, note } = await pinned(this.origin, await listModels(), signal).catch((error) => {
        throwIfAborted(signal); // "cancelled", not what fetch calls it
        throw error;
      });
      this.origin = source;
      this.#known = known;
      this.#note = note;
    }
    const first = await this.#open(this.origin);
    return Object.assign(first, { openPart: (/** @type {string} */ name) => this.#openPart(name) });
  }

  /** @param {ModelSource} origin */
  async #open(origin) {
    const source = createSource(origin, this.newHash); // first, so that abort() can end its opening
    this.#sources.push(source);
    if (this.#controller.signal.aborted) source.abort();
    await source.open();
    return source;
  }

  /** @param {string} name As the first part's with another number. */
  #openPart(name) {
    const { origin } = this;
    if (origin.kind === "file") {
      const found = origin.others?.find((other) => other.name.toLowerCase() === name.toLowerCase());
      if (found) return this.#open({ kind: "file", file: found.file, name: found.name });
      throw new Failure("not_found", `${name} was not given.`, "Choose all files of the model at once.");
    }
    const url = new URL(origin.url);
    url.pathname = partName(url.pathname, partOf(name)?.number ?? 1);
    const { hub, token } = origin;
    const known = this.#known.get(url.href);
    return this.#open({ kind: "url", url: url.href, name, hub, token, ...known });
  }

  /** Stores what was not read, and holds each file to its hash. @param {(done: number, total: number) => void} onProgress */
  async complete(onProgress) {
    for (const source of this.#sources) await source.complete?.(onProgress);
  }

  abort() {
    this.#controller.abort();
    for (const source of this.#sources) source.abort();
  }

  close() {
    for (const source of this.#sources) source.close?.();
  }
}
