// @ts-check
/** Lets a test run jobs in a worker of its own: `await run(job, options)` from Playwright. */

import * as Comlink from "../vendor/comlink.mjs";

const status = /** @type {HTMLElement} */ (document.getElementById("status"));

/** @type {Worker | null} The one that `keep` has started. */
let kept = null;

const newWorker = () => new Worker(new URL("./harness_worker.js", import.meta.url), { type: "module" });

/**
 * @param {Worker} worker
 * @param {string} job A function of harness_worker.js.
 * @param {Record<string, unknown>} options
 * @returns {Promise<any>}
 */
function ask(worker, job, options) {
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message));
    worker.onmessage = ({ data }) => {
      if ("status" in data) status.textContent = data.status;
      else resolve(data);
    };
    worker.postMessage({ job, options });
  });
}

/** @param {string} job @param {Record<string, unknown>} options One job in a fresh worker. */
async function run(job, options) {
  const worker = newWorker();
  const answer = await ask(worker, job, options);
  worker.terminate();
  return answer;
}

/** @param {string} job @param {Record<string, unknown>} options One more job of the same worker. */
const keep = (job, options) => ask((kept ??= newWorker()), job, options);

const HEARD = ["boot", "loadModel", "chat"];

/**
 * Calls methods of the page's own worker, a fresh one, one after the other.
 * @param {[method: string, ...given: unknown[]][]} calls Without their callbacks.
 * @returns Each answer, when it came, and what its callback heard and when: in ms from the start.
 */
async function talk(calls) {
  const began = performance.now();
  const worker = new Worker(new URL("../worker/worker.js", import.meta.url), { type: "module" });
  const api = /** @type {any} */ (Comlink.wrap(worker));
  const answers = [];
  for (const [method, ...given] of calls) {
    /** @type {[ms: number, event: unknown][]} */
    const events = [];
    const hear = (/** @type {unknown} */ event) => void events.push([performance.now() - began, event]);
    const more = HEARD.includes(method) ? [Comlink.proxy(hear)] : [];
    const answer = await api[method](...given, ...more);
    answers.push({ answer, events, ms: performance.now() - began });
  }
  worker.terminate();
  return answers;
}

Object.assign(window, { run, keep, talk });
