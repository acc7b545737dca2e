// @ts-check
/** The threads beside the engine's own that work on the CPU kernels' program. */

/**
 * @typedef {object} Member
 * @property {WebAssembly.Module} module
 * @property {WebAssembly.Memory} memory
 * @property {import("./cpu_memory.js").Address} control Address of the control block.
 * @property {number} index 1 and up; 0 is the engine's own thread.
 * @property {import("./cpu_memory.js").Address} stack Where this thread's stack starts; it grows down.
 * @property {string} lock Held as long as this thread lives.
 */

const START_LIMIT_MS = 10_000;
let count = 0;

/** Workers over one shared memory; a pool that lost one is of no use and is dropped whole. */
export class Pool {
  constructor() {
    /** @type {Worker[]} */
    this.workers = [];
    /** Why a member died, or "". */
    this.failure = "";
  }

  /**
   * Starts the members and waits until each runs. Throws what kept one from starting.
   * @param {Omit<Member, "lock">[]} members
   */
  async start(members) {
    try {
      await Promise.all(members.map((member) => this.#startOne(member)));
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** @param {Omit<Member, "lock">} member */
  async #startOne(member) {
    const worker = new Worker(new URL("./cpu_thread.js", import.meta.url), { type: "module" });
    this.workers.push(worker);
    const lock = `rushlight thread ${++count} of ${performance.timeOrigin}`;
    /** @type {Promise<void>} */
    const started = new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error("it did not start in time")), START_LIMIT_MS);
      worker.addEventListener("message", () => resolve());
      worker.addEventListener("error", (event) => {
        event.preventDefault(); // else it would be the engine's own failure too
        const why = event.message || "it could not be started";
        this.#lose(worker, why);
        reject(new Error(why));
      });
    });
    worker.postMessage({ ...member, lock });
    await started;
    // A worker that the browser ends says nothing, but its lock comes free.
    void navigator.locks.request(lock, () => this.#lose(worker, "the browser ended it"));
  }

  /** @param {Worker} worker @param {string} why */
  #lose(worker, why) {
    if (this.workers.includes(worker)) this.failure ||= why;
  }

  /** Ends every member at once, wherever it is. */
  end() {
    const { workers } = this;
    this.workers = [];
    this.failure = "";
    for (const worker of workers) worker.terminate();
  }
}
