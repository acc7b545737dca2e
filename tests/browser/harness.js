// @ts-check
/** Lets a test run jobs in a worker of its own: `await run(job, options)` from Playwright. */

const status = /** @type {HTMLElement} */ (document.getElementById("status"));

/**
 * @param {string} job A function of harness_worker.js.
 * @param {Record<string, unknown>} options
 * @returns {Promise<any>}
 */
function run(job, options) {
  const worker = new Worker(new URL("./harness_worker.js", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    worker.addEventListener("error", (event) => reject(new Error(event.message)));
    worker.addEventListener("message", ({ data }) => {
      if ("status" in data) {
        status.textContent = data.status;
        return;
      }
      worker.terminate();
      resolve(data);
    });
    worker.postMessage({ job, options });
  });
}

/** @type {any} */ (window).run = run;
