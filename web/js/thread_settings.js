// @ts-check
/** What counts for the conversation in view alone: instructions to the model, and its sampling. */

import { part } from "./dom.js";
import { SamplingFields } from "./sampling_fields.js";

const SAVE_MS = 400;

export class ThreadSettings {
  #system = /** @type {HTMLTextAreaElement} */ (part("thread-system"));
  #fields;
  #timer = 0;

  /** @param {import("./threads.js").Threads} threads */
  constructor(threads) {
    this.threads = threads;
    const form = /** @type {HTMLFormElement} */ (part("settings-form"));
    this.#fields = new SamplingFields(form, "own-");
    for (const event of ["input", "change"]) {
      part("thread-settings").addEventListener(event, () => this.#take());
    }
    threads.addEventListener("switch", () => this.show());
    threads.addEventListener("merge", () => this.show());
  }

  /** Puts the conversation's own values into the fields, bar one that is being typed in. */
  show() {
    const { system, options } = this.threads.current;
    if (part("thread-settings").contains(document.activeElement)) return;
    this.#system.value = system;
    this.#fields.value = options;
  }

  /** @param {import("../worker/protocol.js").ChatOptions} shared What counts in every conversation. */
  showDefaults(shared) {
    this.#fields.showDefaults(shared);
  }

  #take() {
    const { current } = this.threads;
    current.system = this.#system.value.trim();
    current.options = this.#fields.value;
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.threads.save(), SAVE_MS);
  }
}
