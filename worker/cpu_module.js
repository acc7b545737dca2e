// @ts-check
/** The CPU kernels as a WebAssembly module: which build this browser runs, and its memory import. */

import { Failure } from "./failure.js";

/** @typedef {{url: string, sha256: string}} KernelFile As site.json names it; `url` below the site. */
/** @typedef {Record<string, KernelFile>} KernelFiles By build: "simd", "relaxed". */

/** The smallest modules that hold one instruction of each feature. */
const PROBES = {
  // i32.const 0, i8x16.splat, i8x16.popcnt
  simd: "AGFzbQEAAAABBQFgAAF7AwIBAAoKAQgAQQD9D/1iCw==",
  // f(x): first lane of i32x4.relaxed_dot_i8x16_i7x16_add_s of splats of -x, x and x
  relaxed: "AGFzbQEAAAABBgFgAX8BfwMCAQAHBQEBZgAAChkBFwBBACAAa/0PIAD9DyAA/RH9kwL9GwAL",
};

/** @param {keyof typeof PROBES} feature */
function probe(feature) {
  return Uint8Array.from(atob(PROBES[feature]), (c) => c.charCodeAt(0));
}

/** Whether relaxed SIMD is here and adds as it should: V8 11.3 forgot what the dot was added to. */
function hasRelaxedDot() {
  const bytes = probe("relaxed");
  if (!WebAssembly.validate(bytes)) return false;
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
  return /** @type {(x: number) => number} */ (f)(7) === 7 - 4 * 49;
}

/** The build this browser runs best; "" without SIMD. */
export function bestBuild() {
  if (!WebAssembly.validate(probe("simd"))) return "";
  return hasRelaxedDot() ? "relaxed" : "simd";
}

/**
 * Fetches a build; the browser refuses it if its hash is not the site's.
 * @param {KernelFile} file
 * @param {URL} site
 */
export async function fetchKernels({ url, sha256 }, site) {
  const digest = Uint8Array.from(sha256.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const integrity = `sha256-${btoa(String.fromCharCode(...digest))}`;
  try {
    const response = await fetch(new URL(url, site), { integrity });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure("network", `The CPU kernels did not load: ${why}.`, "Reload the page.");
  }
}

/**
 * A copy whose memory import is not shared: a browser gives shared memory to isolated pages only,
 * and the atomic instructions are valid on either. One byte of the import section differs.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
export function withoutSharing(bytes) {
  const copy = bytes.slice();
  const at = memoryFlagsAt(copy);
  copy[at] &= ~SHARED;
  return copy;
}

const IMPORT_SECTION = 2;
const [FUNCTION, TABLE, MEMORY, GLOBAL] = [0, 1, 2, 3];
const [HAS_MAXIMUM, SHARED] = [1, 2];

/** @param {Uint8Array} bytes Where the flags byte of the imported memory is. */
function memoryFlagsAt(bytes) {
  let at = 8; // past the magic number and the version
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  };
  const skipName = () => {
    const length = number(); // moves `at` too, so not in one step
    at += length;
  };
  while (at < bytes.length) {
    const section = bytes[at++];
    const end = number() + at;
    if (section === IMPORT_SECTION) {
      for (let left = number(); left > 0; left--) {
        skipName(); // of the module it comes from
        skipName(); // its own
        const kind = bytes[at++];
        if (kind === MEMORY) return at;
        if (kind === FUNCTION) number();
        else if (kind === GLOBAL) at += 2;
        else if (kind === TABLE) {
          at++;
          const flags = number();
          number();
          if (flags & HAS_MAXIMUM) number();
        }
      }
    }
    at = end;
  }
  throw new Failure("worker_failed", "The CPU kernels import no memory.", "Rebuild the site.");
}
