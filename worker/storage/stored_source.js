// @ts-check
/**
 * A web address whose bytes are kept on this device: what is stored is read from there, the rest is
 * fetched and stored on the way. A load that was cut goes on where it ended; a chunk that lost its
 * hash is fetched again; a file that changed on its host starts anew.
 */

import { Failure } from "../failure.js";
import { checkRange } from "../http_source.js";
import { CHUNK_BYTES, sha256Hex } from "./journal.js";
import { evictOldest, openStored, roomFor } from "./model_store.js";

/** @typedef {import("../http_source.js").HttpSource} HttpSource */
/** @typedef {import("./model_store.js").StoredFile} StoredFile */
/** @typedef {{update: (bytes: Uint8Array) => void, hex: () => string}} WholeHash SHA-256. */

const MAGIC = 0x46554747; // "GGUF"
/** Most chunks of one request: what a cut connection costs. */
const MAX_RUN = 4;

export class StoredSource {
  /**
   * @param {HttpSource} host
   * @param {string} [sha256] Of the whole file, if it is known.
   * @param {() => WholeHash} [newHash] Needed with `sha256`: browsers hash only what is in memory.
   */
  constructor(host, sha256 = "", newHash = undefined) {
    this.host = host;
    this.sha256 = sha256;
    this.newHash = newHash;
    this.name = host.name;
    this.size = 0;
    /** @type {string[]} */
    this.notes = [];
    /** @type {StoredFile | null} */
    this.file = null;
    /** Chunks whose hash was compared since opening. @type {Set<number>} */
    this.checked = new Set();
    this.isOffline = false;
  }

  get note() {
    return [...this.notes, this.host.note].filter(Boolean).join(" ");
  }

  async open() {
    const opened = await openStored(this.host.url);
    if (typeof opened === "string") this.notes.push(opened);
    else {
      this.file = opened;
      this.host.cache = "no-store"; // what is stored here need not fill the browser's cache too
    }
    try {
      if (this.#isSettled()) this.size = this.#journal().identity.size;
      else await this.#openHost();
      await this.#lookForRoom();
      this.#stored()?.note(`u ${Date.now()}`);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** What can never fit is not stored at all: no other model is deleted for its sake. */
  async #lookForRoom() {
    const file = this.#stored();
    if (!file || file.journal.isComplete) return;
    const { fits, most } = await roomFor(this.size - file.journal.storedBytes, file.key);
    if (fits) return;
    const why = `it takes ${mega(this.size)}, and there is room for ${mega(Math.max(0, most))}`;
    this.#drop(`The model is too large to be stored on this device (${why}): it is fetched each time.`);
  }

  /** Asks the host what it has now, and starts anew if that is another file. */
  async #openHost() {
    const file = this.#stored();
    try {
      await this.host.open();
    } catch (error) {
      const isCut = error instanceof Failure && error.code === "network";
      if (!isCut || !file?.journal.isComplete) throw error;
      this.isOffline = true;
      this.size = file.journal.identity.size;
      this.notes.push("The model's host cannot be reached: the copy on this device is used.");
      return;
    }
    this.size = this.host.size;
    const { url, name, size, version } = this.host;
    const identity = { url, name, size, version, sha256: this.sha256 };
    if (!file || file.journal.isOf(identity)) return;
    if (file.journal.chunks.size) {
      this.notes.push("The file has changed on its host: it is fetched anew.");
    }
    try {
      file.restart(identity);
    } catch (error) {
      this.#giveUp(error);
    }
  }

  /** Whether what is on disk is known to be the file that is wanted, without asking its host. */
  #isSettled() {
    const journal = this.#stored()?.journal;
    if (!journal?.isComplete || !journal.isVerified) return false;
    return this.sha256 !== "" && journal.identity.sha256 === this.sha256;
  }

  /** @param {number} offset @param {number} n @returns {Promise<Uint8Array<ArrayBuffer>>} */
  async read(offset, n) {
    if (!this.file) return this.host.read(offset, n);
    checkRange(this.name, this.size, offset, n);
    if (n === 0) return new Uint8Array(0);
    const last = Math.floor((offset + n - 1) / CHUNK_BYTES);
    for (let i = Math.floor(offset / CHUNK_BYTES); i <= last; i++) {
      await this.#provide(i, last);
      if (!this.#stored()) return this.host.read(offset, n); // storing ended on the way
    }
    const bytes = new Uint8Array(n);
    this.file.read(offset, bytes);
    return bytes;
  }

  /** Sees to it that chunk `index` is on disk and right. @param {number} index @param {number} last */
  async #provide(index, last) {
    const { journal } = this.#open();
    if (this.checked.has(index)) return;
    if (journal.chunks.has(index) && (await this.#isIntact(index))) {
      this.checked.add(index);
      return;
    }
    let end = index + 1;
    while (end <= last && end < index + MAX_RUN && !journal.chunks.has(end)) end++;
    await this.#fetch(index, end);
  }

  /** @param {number} index */
  async #isIntact(index) {
    const file = this.#open();
    const bytes = new Uint8Array(file.journal.chunkSize(index));
    try {
      file.read(index * CHUNK_BYTES, bytes);
      if ((await sha256Hex(bytes)) === file.journal.chunks.get(index)) return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error; // shorter than it was: fetched again
    }
    file.forget(index);
    if (this.isOffline) {
      const hint = "Connect to the network: the damaged part is then fetched again.";
      throw new Failure("source", `The stored copy of ${this.name} is damaged.`, hint);
    }
    this.notes.push("A damaged part of the stored file was fetched again.");
    return false;
  }

  /** Chunks `first`..`end` from the host to disk. @param {number} first @param {number} end */
  async #fetch(first, end) {
    if (!this.host.size) await this.host.open(); // settled by its hash, yet damaged
    const from = first * CHUNK_BYTES;
    const bytes = await this.host.read(from, Math.min(end * CHUNK_BYTES, this.size) - from);
    if (first === 0 && new DataView(bytes.buffer).getUint32(0, true) !== MAGIC) {
      return this.#drop("What the address gives is not a GGUF file: it is not stored.");
    }
    for (let index = first; index < end; index++) {
      const at = (index - first) * CHUNK_BYTES;
      await this.#put(index, bytes.subarray(at, at + CHUNK_BYTES));
      if (!this.#stored()) return;
    }
  }

  /** @param {number} index @param {Uint8Array<ArrayBuffer>} bytes */
  async #put(index, bytes) {
    for (;;) {
      try {
        await this.#open().put(index, index * CHUNK_BYTES, bytes);
        this.checked.add(index);
        return;
      } catch (error) {
        const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
        const evicted = isFull ? await evictOldest(this.#open().key) : "";
        if (!evicted) return this.#giveUp(error);
        this.notes.push(`To make room, ${evicted} was deleted from this device.`);
      }
    }
  }

  /** @param {unknown} error */
  #giveUp(error) {
    const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
    const why = isFull ? "there is no room for it" : String(error);
    this.#drop(`The model cannot be stored on this device (${why}): it is fetched each time.`);
  }

  /** Ends storing; reading goes on from the host. @param {string} note */
  #drop(note) {
    this.notes.push(note);
    this.#open().close();
    this.file = null;
  }

  /**
   * Stores what no read has asked for, then compares the whole with the host's hash.
   * Throws "damaged" if it differs; the copy is then forgotten.
   * @param {(done: number, total: number) => void} onProgress
   */
  async complete(onProgress) {
    const file = this.#stored();
    if (!file || file.journal.isVerified || this.isOffline) return;
    const whole = (this.sha256 && this.newHash?.()) || null;
    const last = file.journal.nChunks - 1;
    for (let index = 0; index <= last; index++) {
      await this.#provide(index, last);
      if (!this.#stored()) return;
      if (!whole) continue;
      const bytes = new Uint8Array(file.journal.chunkSize(index));
      file.read(index * CHUNK_BYTES, bytes);
      whole.update(bytes);
      onProgress(index * CHUNK_BYTES, this.size);
    }
    if (!whole) return;
    const found = whole.hex();
    if (found === this.sha256) return file.note("v");
    file.restart(file.journal.identity);
    const hint = "Load it again; if it persists, the host gives out another file than it says.";
    const what = `${this.name} has the SHA-256 ${found}, but its host says ${this.sha256}.`;
    throw new Failure("damaged", what, hint);
  }

  /** @returns {StoredFile | null} Asked anew after each wait: storing may have ended. */
  #stored() {
    return this.file;
  }

  #open() {
    if (!this.file) throw new Failure("closed", `${this.name} is closed.`);
    return this.file;
  }

  #journal() {
    return this.#open().journal;
  }

  abort() {
    this.host.abort();
  }

  close() {
    this.file?.close();
    this.file = null;
  }
}

/** @param {number} nBytes */
const mega = (nBytes) => `${Math.round(nBytes / 1e6)} MB`;
