// @ts-check
/** Lets a test run jobs in a worker of its own: `await run(job, options)` from Playwright. */

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

Object.assign(window, { run, keep });
