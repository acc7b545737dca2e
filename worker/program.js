// @ts-check
/** A program as Python writes it (webgpu_common.program_json), and how its bytes are spelled. */

/** @typedef {[name: string, nBytes: number, kind: string]} Slot */
/** @typedef {[slot: string, offset: number, nBytes: number]} Binding nBytes 0 = to the slot's end */
/** @typedef {[kernel: number, bindings: Binding[], grid: number[], label: string]} Dispatch */
/**
 * @typedef {object} Plan
 * @property {string} name
 * @property {number} n_tokens_max
 * @property {Slot[]} slots
 * @property {string} params base64
 * @property {Dispatch[]} dispatches
 * @property {number} input_bytes
 * @property {Record<string, Binding>} outputs
 */
/**
 * @typedef {object} Kernel
 * @property {string} name
 * @property {string} code
 * @property {Record<string, number>} constants
 */
/**
 * @typedef {object} Program As webgpu_common.program_json writes it.
 * @property {Slot[]} slots
 * @property {Kernel[]} kernels
 * @property {Plan[]} plans
 */

/** @param {string} base64 */
export function decodeBytes(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

/** @param {number} n Bytes rounded up to whole words, as buffers and writes need. */
export const words = (n) => Math.max(4, Math.ceil(n / 4) * 4);
