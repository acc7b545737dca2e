// @ts-check
/** What went wrong, in words, with the next step; the page around it stays usable. */

import { part } from "./dom.js";
import { asFault } from "./engine_client.js";

export class AlertView {
  #card = part("alert");
  #retry = part("alert-retry");
  /** @type {(() => void) | null} */
  #again = null;
  #remedy = /** @type {HTMLButtonElement} */ (part("alert-remedy"));
  #recall = part("alert-recall");
  /** @type {(() => void) | null} */
  #cure = null;

  /**
   * @param {object} actions
   * @param {() => void} actions.onPick "Choose a model".
   * @param {() => void} actions.onClose
   */
  constructor({ onPick, onClose }) {
    part("alert-pick").addEventListener("click", onPick);
    part("alert-close").addEventListener("click", () => {
      this.hide();
      // Without a model the reason stays a click away.
      this.#recall.hidden = document.body.dataset.state !== "error";
      onClose();
    });
    this.#recall.addEventListener("click", () => this.recall());
    this.#remedy.addEventListener("click", () => {
      this.hide();
      this.#cure?.();
    });
    this.#retry.addEventListener("click", () => {
      this.hide();
      this.#again?.();
    });
  }

  /**
   * @param {unknown} thrown
   * @param {(() => void) | null} [again] What "Try again" does; without it there is no such button.
   * @param {{label: string, run: () => void} | null} [remedy] A step that may help.
   * @param {string} [againLabel]
   */
  show(thrown, again = null, remedy = null, againLabel = "Try again") {
    const fault = asFault(thrown);
    console.error(fault.code, thrown);
    this.#again = again;
    this.#retry.hidden = !again;
    this.#retry.textContent = againLabel;
    this.#cure = remedy?.run ?? null;
    this.#remedy.textContent = remedy?.label ?? "";
    this.#remedy.hidden = !remedy;
    this.#card.dataset.code = fault.code;
    part("alert-message").textContent = fault.message;
    part("alert-hint").textContent = fault.hint;
    this.recall();
  }

  /** Shows the last one again, for who put it away and still has no model. */
  recall() {
    this.#recall.hidden = true;
    this.#card.hidden = false;
  }

  hide() {
    this.#recall.hidden = true;
    this.#card.hidden = true;
  }
}
