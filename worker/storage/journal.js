// @ts-check
/**
 * What is known of a stored model file: where it is from and which of its chunks are there.
 *
 * A text file that only grows, a line a fact, so that a line cut short by a closed tab costs one
 * chunk and nothing else. The first line is the identity; then "c INDEX SHA256" (a chunk is on
 * disk), "v" (the whole has the host's hash) and "u TIME" (used, in milliseconds).
 */

export const CHUNK_BYTES = 4 << 20;
const FORMAT = 1;
const CHUNK_LINE = /^c (\d+) ([0-9a-f]{64})$/;
const USED_LINE = /^u (\d+)$/;

/**
 * @typedef {object} Identity
 * @property {string} url
 * @property {string} name
 * @property {number} size Bytes of the file.
 * @property {string} version The host's ETag or date; "" if it gives none.
 * @property {string} sha256 Of the whole file, if the host tells; else "".
 */

export class Journal {
  /** @param {Identity} identity */
  constructor(identity) {
    this.identity = identity;
    /** Chunk index → SHA-256 of its bytes. @type {Map<number, string>} */
    this.chunks = new Map();
    this.isVerified = false;
    this.usedMs = 0;
  }

  get nChunks() {
    return Math.ceil(this.identity.size / CHUNK_BYTES);
  }

  /** Of a file that was never reached not even the size is known. */
  get isComplete() {
    return this.nChunks > 0 && this.chunks.size === this.nChunks;
  }

  /** Bytes of the chunks that are there. */
  get storedBytes() {
    let sum = 0;
    for (const index of this.chunks.keys()) sum += this.chunkSize(index);
    return sum;
  }

  /** @param {number} index */
  chunkSize(index) {
    return Math.min(CHUNK_BYTES, this.identity.size - index * CHUNK_BYTES);
  }

  /** Whether a file of this identity is the same as the one on disk. @param {Identity} other */
  isOf(other) {
    const { url, size, version, sha256 } = this.identity;
    const isSameHash = !sha256 || !other.sha256 || sha256 === other.sha256;
    return url === other.url && size === other.size && version === other.version && isSameHash;
  }

  /** The first line of a new journal. */
  firstLine() {
    return `${JSON.stringify({ format: FORMAT, ...this.identity })}\n`;
  }

  /**
   * A journal from its text; null if it is not one that this code can use.
   * @param {string} text
   */
  static parse(text) {
    const [first, ...lines] = text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
    const identity = identityOf(first);
    if (!identity) return null;
    const journal = new Journal(identity);
    for (const line of lines) journal.#take(line);
    return journal;
  }

  /** @param {string} line */
  #take(line) {
    const chunk = CHUNK_LINE.exec(line);
    if (chunk && Number(chunk[1]) < this.nChunks) this.chunks.set(Number(chunk[1]), chunk[2]);
    const used = USED_LINE.exec(line);
    if (used) this.usedMs = Number(used[1]);
    if (line === "v") this.isVerified = true;
  }
}

/**
 * @param {string} line
 * @returns {Identity | null}
 */
function identityOf(line) {
  try {
    const { format, url, name, size, version, sha256 } = JSON.parse(line);
    const isText = [url, name, version, sha256].every((value) => typeof value === "string");
    if (format !== FORMAT || !isText || !Number.isSafeInteger(size) || size <= 0) return null;
    return { url, name, size, version, sha256 };
  } catch {
    return null; // half written, or not ours: the file is fetched anew
  }
}

/**
 * @param {BufferSource} bytes
 * @returns {Promise<string>}
 */
export async function sha256Hex(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
