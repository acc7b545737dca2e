// @ts-check
/** Keeps submits short, so that the page stays live and a stop is heard. */

const SUBMIT_TARGET_MS = 30;

/** Cuts dispatches into submits of about a target time; the same rule as Python's Pacer. */
export class Pacer {
  /** @param {number} nDispatches @param {number} [targetMs] */
  constructor(nDispatches, targetMs = SUBMIT_TARGET_MS) {
    this.targetMs = targetMs;
    this.costMs = new Float64Array(nDispatches).fill(SUBMIT_TARGET_MS / 8);
  }

  /**
   * @param {number} start @param {number} stop
   * @param {number} [nUnits] What a dispatch's cost grows with, where steps differ in size.
   */
  endOfSubmit(start, stop, nUnits = 1) {
    const target = this.targetMs / nUnits;
    let end = start;
    let total = this.costMs[end++];
    while (end < stop && total + this.costMs[end] <= target) total += this.costMs[end++];
    return end;
  }

  /** @param {number} start @param {number} stop @param {number} elapsedMs @param {number} [nUnits] */
  measured(start, stop, elapsedMs, nUnits = 1) {
    this.costMs.fill(Math.max(elapsedMs, 1e-3) / nUnits / (stop - start), start, stop);
  }
}

const channel = new MessageChannel();

/** Lets waiting events in, without the 4 ms that a nested timer takes. */
export function events() {
  return new Promise((resolve) => {
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(null);
  });
}
