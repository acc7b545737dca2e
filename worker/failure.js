// @ts-check
/** Errors of the worker's own JavaScript, in the same terms as rushlight.errors. */

export class Failure extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {string} [hint]
   * @param {Record<string, unknown>} [details] E.g. the kernel and line of a compile error.
   */
  constructor(code, message, hint = "", details = {}) {
    super(message);
    this.name = "Failure";
    this.code = code;
    this.hint = hint;
    this.details = details;
    /** Of a load: the model before it is still there. */
    this.isModelKept = false;
  }
}

/** @param {AbortSignal | undefined} signal */
export function throwIfAborted(signal) {
  if (signal?.aborted) throw new Failure("cancelled", "Stopped.");
}

/** @param {string} message */
export function outOfDeviceMemory(message) {
  return new Failure(
    "out_of_device_memory",
    `The GPU could not allocate a buffer: ${message}`,
    "Close other tabs, or use a smaller context or a smaller model.",
  );
}
