// @ts-check
/** What went wrong, in words, with the next step; the page around it stays usable. */

import { part } from "./dom.js";
import { asFault } from "./engine_client.js";

export class AlertView {
  #card = part("alert");
  #retry = part("alert-retry");
  /** @type {(() => void) | null} */
  #again = null;

  /**
   * @param {object} actions
   * @param {() => void} actions.onPick "Choose a model".
   * @param {() => void} actions.onClose
   */
  constructor({ onPick, onClose }) {
    part("alert-pick").addEventListener("click", onPick);
    part("alert-close").addEventListener("click", () => {
      this.hide();
      onClose();
    });
    this.#retry.addEventListener("click", () => {
      this.hide();
      this.#again?.();
    });
  }

  /**
   * @param {unknown} thrown
   * @param {(() => void) | null} [again] What "Try again" does; without it there is no such button.
   */
  show(thrown, again = null) {
    const fault = asFault(thrown);
    console.error(fault.code, thrown);
    this.#again = again;
    this.#retry.hidden = !again;
    this.#card.dataset.code = fault.code;
    part("alert-message").textContent = fault.message;
    part("alert-hint").textContent = fault.hint;
    this.#card.hidden = false;
  }

  /** Shows the last one again, for who put it away and still has no model. */
  recall() {
    this.#card.hidden = false;
  }

  hide() {
    this.#card.hidden = true;
  }
}
