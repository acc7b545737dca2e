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
  }
}

/** @param {AbortSignal | undefined} signal */
export function throwIfAborted(signal) {
  if (signal?.aborted) throw new Failure("cancelled", "Stopped.");
}

/**
 * Any thrown thing as the JSON that Python turns into an EngineError.
 * @param {unknown} thrown
 */
export function failureJson(thrown) {
  const error = /** @type {Partial<Failure>} */ (thrown ?? {});
  return JSON.stringify({
    code: error.code ?? "",
    message: error.message ?? String(thrown),
    hint: error.hint ?? "",
    details: error.details ?? {},
  });
}
