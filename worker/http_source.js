// @ts-check
/** A model file at a web address: Range requests, retries, one full stream if there is no Range. */

import { Failure, throwIfAborted } from "./failure.js";
import { fileNameOf } from "./names.js";

const RETRIES = 3;
const LESS_THAN = 0x3c;
const KEEP_BEHIND = 64 << 20;

/**
 * @param {string} name @param {number} size @param {number} offset @param {number} n
 */
export function checkRange(name, size, offset, n) {
  if (offset >= 0 && n >= 0 && offset + n <= size) return;
  const range = `bytes ${offset} to ${offset + n}`;
  throw new Failure("out_of_range", `${name}: ${range} lie outside the file of ${size} bytes.`);
}

/** A web address: one Range request per read, or one full stream if the server ignores Range. */
export class HttpSource {
  /**
   * @param {string} url
   * @param {string} [name]
   * @param {number} [size]
   * @param {string} [token] Shown to this address's host alone.
   */
  constructor(url, name, size, token) {
    this.url = url;
    /** @type {Record<string, string>} */
    this.credentials = token ? { Authorization: `Bearer ${token}` } : {};
    this.name = name || (fileNameOf(url) || url);
    this.size = size ?? 0;
    this.expected = size;
    /** What the host calls this state of the file: its ETag, else its date; "" if it says neither. */
    this.version = "";
    this.note = "";
    /** @type {RequestCache} */
    this.cache = "default";
    this.controller = new AbortController();
    /** @type {BodyStream | null} */
    this.stream = null;
  }

  /** Asks for the first bytes, to learn the size and whether Range works. */
  async open() {
    const response = await this.#request(0, 16);
    if (response.status === 206) {
      const total = Number(response.headers.get("Content-Range")?.split("/")[1]);
      await response.arrayBuffer();
      this.size = total || this.size || (await this.#sizeByHead());
      return this.#checkSize();
    }
    this.size = Number(response.headers.get("Content-Length")) || this.size;
    this.note = `${new URL(this.url).host} ignores Range requests: the file is read in one stream.`;
    this.stream = new BodyStream(response, this.name);
    if (!this.size) this.#refuseUnknownSize();
    this.#checkSize();
  }

  #checkSize() {
    if (!this.expected || this.size === this.expected) return;
    const message = `${this.name} has ${this.size} bytes, but ${this.expected} were announced.`;
    throw new Failure("source", message, "Try again; if it persists, the file's host is at fault.");
  }

  async #sizeByHead() {
    const head = await fetch(this.url, {
      method: "HEAD",
      headers: this.credentials,
      signal: this.controller.signal,
    });
    const size = Number(head.headers.get("Content-Length"));
    return size || this.#refuseUnknownSize();
  }

  /** @returns {never} */
  #refuseUnknownSize() {
    const hint = "Expose Content-Range to this page (CORS), or download the file and open it here.";
    throw new Failure("source", `${this.url} does not say how long the file is.`, hint);
  }

  /** @param {number} offset @param {number} n */
  async read(offset, n) {
    throwIfAborted(this.controller.signal);
    checkRange(this.name, this.size, offset, n);
    return this.#retrying(() => (this.stream ? this.#streamed(offset, n) : this.#ranged(offset, n)));
  }

  /** @param {number} offset @param {number} n */
  async #ranged(offset, n) {
    if (n === 0) return new Uint8Array(0);
    const response = await this.#request(offset, n);
    const data = new Uint8Array(await response.arrayBuffer());
    if (data.length === n) return data;
    if (response.status === 200 && data[0] === LESS_THAN) {
      const hint = "The host may ask to sign in: open the address in a tab of its own and look.";
      const message = `${new URL(this.url).host} sent a web page instead of ${this.name}.`;
      throw new Failure("source", message, hint);
    }
    throw new TypeError(`${n} bytes at ${offset} were asked for, ${data.length} came`);
  }

  /** @param {number} offset @param {number} n */
  async #streamed(offset, n) {
    if (!this.stream || this.stream.isBroken || offset < this.stream.start) {
      this.stream = new BodyStream(await this.#request(0, this.size), this.name);
    }
    return this.stream.read(offset, n);
  }

  /** @param {number} offset @param {number} n */
  async #request(offset, n) {
    // Without a token no other header: a lone simple Range needs no CORS preflight.
    const headers = { Range: `bytes=${offset}-${offset + n - 1}`, ...this.credentials };
    return this.#retrying(async () => {
      const response = await fetch(this.url, {
        headers,
        cache: this.cache,
        signal: this.controller.signal,
      });
      if (response.ok) return this.#ofOneVersion(response);
      if (response.status >= 500 || response.status === 429) {
        throw new TypeError(`the server answered ${response.status}`);
      }
      throw refusal(this.url, response.status);
    });
  }

  /**
   * Runs `attempt` again after network errors, with growing pauses.
   * @template T
   * @param {() => Promise<T>} attempt
   * @returns {Promise<T>}
   */
  async #retrying(attempt) {
    for (let failures = 0; ; failures++) {
      try {
        return await attempt();
      } catch (error) {
        throwIfAborted(this.controller.signal);
        if (!(error instanceof TypeError)) throw error; // fetch reports the network as TypeError
        if (failures === RETRIES) throw unreachable(this.url, error.message);
        await pause(300 * 2 ** failures);
      }
    }
  }

  /**
   * All bytes must come from one state of the file.
   * @param {Response} response
   */
  #ofOneVersion(response) {
    const { headers } = response;
    const version = headers.get("ETag") ?? headers.get("Last-Modified") ?? "";
    if (this.version && version && version !== this.version) {
      const message = `${this.name} has changed on its host while it was read.`;
      throw new Failure("changed", message, "Load it again.");
    }
    this.version ||= version;
    return response;
  }

  abort() {
    this.controller.abort();
  }
}

/** A response body read forwards, keeping the last KEEP_BEHIND bytes for small steps back. */
class BodyStream {
  /** @param {Response} response @param {string} name */
  constructor(response, name) {
    this.reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    this.name = name;
    /** @type {Uint8Array[]} */
    this.chunks = [];
    this.start = 0;
    this.end = 0;
    this.isBroken = false;
  }

  /** @param {number} offset @param {number} n */
  async read(offset, n) {
    while (this.end < offset + n) {
      const { done, value } = await this.reader.read().catch((error) => {
        this.isBroken = true;
        throw error;
      });
      if (done) {
        this.isBroken = true;
        throw new TypeError(`the stream ended after ${this.end} bytes`);
      }
      this.chunks.push(value);
      this.end += value.length;
      while (this.start + this.chunks[0].length < Math.min(offset, this.end - KEEP_BEHIND)) {
        this.start += /** @type {Uint8Array} */ (this.chunks.shift()).length;
      }
    }
    const result = new Uint8Array(n);
    let at = this.start;
    for (const chunk of this.chunks) {
      const from = Math.max(offset - at, 0);
      const to = Math.min(offset + n - at, chunk.length);
      if (from < to) result.set(chunk.subarray(from, to), at + from - offset);
      at += chunk.length;
    }
    return result;
  }
}

const OFFLINE_MS = 30_000;

/** Waits before another try, and for the network while the browser says that there is none. @param {number} ms */
async function pause(ms) {
  await new Promise((done) => setTimeout(done, ms));
  if (navigator.onLine) return;
  await new Promise((done) => {
    self.addEventListener("online", done, { once: true });
    setTimeout(done, OFFLINE_MS);
  });
}

/** @param {string} url @param {number} status */
function refusal(url, status) {
  if (status === 404 || status === 410) {
    return new Failure("not_found", `There is no file at ${url}.`, "Check the address.");
  }
  if (status === 401 || status === 403) {
    const hint = "The file may be private: download it and open it from this device.";
    return new Failure("forbidden", `The server does not give out ${url} (${status}).`, hint);
  }
  return new Failure("source", `The server answered ${status} for ${url}.`, "Try again later.");
}

/** @param {string} url @param {string} why */
function unreachable(url, why) {
  const isForeign = new URL(url).origin !== self.location.origin;
  const hint = isForeign
    ? "Check the connection; the host may also not allow other sites to read it (CORS)."
    : "Check the connection and try again.";
  return new Failure("network", `Cannot read ${url}: ${why}.`, hint);
}
