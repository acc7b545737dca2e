// @ts-check
/** Keeps submits short, so that the page stays live and a stop is heard. */

const SUBMIT_TARGET_MS = 30;

/** Cuts dispatches into submits of about SUBMIT_TARGET_MS; the same rule as Python's Pacer. */
export class Pacer {
  /** @param {number} nDispatches */
  constructor(nDispatches) {
    this.costMs = new Float64Array(nDispatches).fill(SUBMIT_TARGET_MS / 8);
  }

  /** @param {number} start @param {number} stop */
  endOfSubmit(start, stop) {
    let end = start;
    let total = this.costMs[end++];
    while (end < stop && total + this.costMs[end] <= SUBMIT_TARGET_MS) total += this.costMs[end++];
    return end;
  }

  /** @param {number} start @param {number} stop @param {number} elapsedMs */
  measured(start, stop, elapsedMs) {
    this.costMs.fill(Math.max(elapsedMs, 1e-3) / (stop - start), start, stop);
  }
}
