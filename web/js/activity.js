// @ts-check
/**
 * What the page is doing. One thing runs at a time (`work`): a load or a reply. What starts another
 * first ends the one before. `document.body.dataset.state` says where the page is, for styles and
 * for tests.
 */

/** @typedef {"booting" | "loading" | "ready" | "generating" | "error"} State */

export class Activity {
  /** @type {State} */
  #state = "booting";
  /** @type {Promise<void> | null} The load or reply that runs; never rejects. */
  work = null;
  /** A message was sent before the model was ready. */
  isQueued = false;

  /**
   * @param {import("./engine_client.js").EngineClient} client
   * @param {(mode: {canSend: boolean, canStop: boolean}) => void} onChange
   */
  constructor(client, onChange) {
    this.client = client;
    this.onChange = onChange;
  }

  get state() {
    return this.#state;
  }

  /** @param {State} [next] Left out: the state stays, but what can be done in it may not. */
  enter(next = this.#state) {
    this.#state = next;
    document.body.dataset.state = next;
    this.onChange({ canSend: next === "ready", canStop: next === "generating" || this.isQueued });
  }

  /** Ends what runs and waits for its end. */
  async quiet() {
    if (!this.work) return;
    if (this.client.isBooted) {
      await this.client.stop().catch((error) => console.info("Nothing to stop.", error));
    }
    await this.work;
  }
}
