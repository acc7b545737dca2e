// @ts-check
/** The memory that the CPU kernels and their threads share: 4 GiB, or more with 64-bit addresses. */

import { Failure } from "./failure.js";

/** @typedef {number | bigint} Address A bigint where the memory is wide. */

const PAGE_BYTES = 1 << 16;
/** What the kernels import, see space/tools/wasm_builder.py. */
const MAX_PAGES = (1 << 16) - 1;
const MAX_WIDE_PAGES = 1 << 18;
/** What a memory may grow by for more sessions; address space is taken for it, not memory. */
const SPARE_PAGES = (1 << 30) / PAGE_BYTES;
/** A module whose memory has 64-bit addresses. */
const WIDE = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 4, 1);

/** The most bytes that a model may take in this browser. */
export function maxMemoryBytes() {
  return (WebAssembly.validate(WIDE) ? MAX_WIDE_PAGES : MAX_PAGES) * PAGE_BYTES;
}

export class KernelMemory {
  /** @type {WebAssembly.Memory} */
  #memory;

  /**
   * Throws Failure "out_of_device_memory" when the browser gives none of this size.
   * @param {number} nBytes
   * @param {number} nBytesMore What it will have to grow by at least.
   * @param {boolean} isShared
   */
  constructor(nBytes, nBytesMore, isShared) {
    const initial = Math.ceil(nBytes / PAGE_BYTES);
    const more = Math.ceil(nBytesMore / PAGE_BYTES);
    /** Whether addresses have 64 bits, which costs the kernels a check at each access. */
    this.isWide = initial + more > MAX_PAGES;
    this.#memory = this.#allocate(initial, initial + more, isShared);
  }

  /**
   * A shared memory takes the address space of its maximum at once, so a browser that is short of it
   * is asked for less.
   * @param {number} initial
   * @param {number} least
   * @param {boolean} shared
   */
  #allocate(initial, least, shared) {
    const limit = this.isWide ? MAX_WIDE_PAGES : MAX_PAGES;
    let failure;
    for (const wanted of [initial + SPARE_PAGES, least]) {
      const maximum = Math.max(Math.min(wanted, limit), least);
      try {
        return new WebAssembly.Memory(/** @type {any} */ (this.#descriptor(initial, maximum, shared)));
      } catch (error) {
        failure = error;
      }
    }
    const size = formatBytes(initial * PAGE_BYTES);
    const message = `The browser gave no memory of ${size} for this model: ${failure}`;
    throw new Failure("out_of_device_memory", message, "Close other tabs, or use a smaller model.");
  }

  /** @param {number} initial @param {number} maximum @param {boolean} shared */
  #descriptor(initial, maximum, shared) {
    if (!this.isWide) return { initial, maximum, shared };
    return { address: "i64", initial: BigInt(initial), maximum: BigInt(maximum), shared };
  }

  get wasm() {
    return this.#memory;
  }

  /** @param {number} n @returns {Address} As the kernels take it. */
  address(n) {
    return this.isWide ? BigInt(n) : n;
  }

  /** @param {number} address @param {Uint8Array} data */
  write(address, data) {
    new Uint8Array(this.#memory.buffer, address, data.length).set(data);
  }

  /** @param {number} address @param {number} nBytes A copy. */
  read(address, nBytes) {
    return new Uint8Array(this.#memory.buffer, address, nBytes).slice();
  }

  /** @param {number} address */
  readInt(address) {
    return new Int32Array(this.#memory.buffer, address, 1)[0];
  }

  /** @param {number} nBytes @returns The address of as many more bytes, zeros. */
  grow(nBytes) {
    const nPages = this.address(Math.ceil(nBytes / PAGE_BYTES));
    try {
      return Number(this.#memory.grow(/** @type {any} */ (nPages))) * PAGE_BYTES;
    } catch {
      const message = `The browser gave no more memory (${formatBytes(nBytes)} for a conversation).`;
      throw new Failure("out_of_device_memory", message, "Close other tabs, or use a smaller context.");
    }
  }
}

/** @param {number} n */
const formatBytes = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${Math.ceil(n / 1e6)} MB`);

const TRIAL_BYTES = 1 << 30;

/**
 * Whether the browser reserves so many bytes for this page now: a trial that gives all back.
 * @param {number} nBytes
 */
export function canReserve(nBytes) {
  /** @type {ArrayBuffer[]} */
  const held = [];
  try {
    // In blocks: one block ends far below what a memory of the kernels may hold.
    for (let left = nBytes; left > 0; left -= TRIAL_BYTES) {
      held.push(new ArrayBuffer(Math.min(left, TRIAL_BYTES)));
    }
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  } finally {
    // At once, where the browser can; else they go with the next collection.
    for (const buffer of held) /** @type {any} */ (buffer).transfer?.(0);
  }
}
