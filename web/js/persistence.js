// @ts-check
/** Whether the browser promises to keep what this site stores, and when it is asked to. */

/** Smaller models are soon fetched again: not worth a question. */
const WORTH_BYTES = 50e6;

/** Asks once a person has chosen a large model and it is there. @param {number} nBytes */
export async function keepIfLarge(nBytes) {
  if (nBytes >= WORTH_BYTES && !(await isPersistent())) await askToKeep();
}

export async function isPersistent() {
  return (await navigator.storage?.persisted?.()) ?? false;
}

/** @returns {Promise<boolean>} The browser's answer; some ask the person, most decide alone. */
export async function askToKeep() {
  return (await navigator.storage?.persist?.()) ?? false;
}
