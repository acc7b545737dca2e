// @ts-check
/** Asks for an access token of the hub, once it has refused a file without one. */

import { part } from "./dom.js";
import { hubHost, hubToken, isTokenKept, setToken } from "./hub_access.js";

export class TokenField {
  #form = /** @type {HTMLFormElement} */ (part("token-form"));
  #field = /** @type {HTMLInputElement} */ (part("token"));
  #keep = /** @type {HTMLInputElement} */ (part("token-keep"));
  /** @type {() => void} */
  #again = () => {};

  constructor() {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.#field.value.trim()) {
        this.#field.focus();
        return;
      }
      setToken(this.#field.value, this.#keep.checked);
      this.#field.value = "";
      this.#form.hidden = true;
      this.#again();
    });
    part("token-forget").addEventListener("click", () => {
      setToken("", false);
      this.#show();
      this.#field.focus();
    });
  }

  /** @param {() => void} again What was refused. */
  ask(again) {
    this.#again = again;
    this.#keep.checked = isTokenKept();
    this.#form.hidden = false;
    this.#show();
    this.#form.scrollIntoView({ block: "nearest" });
    this.#field.focus({ preventScroll: true });
  }

  #show() {
    const host = hubHost();
    part("token-words").textContent = hubToken()
      ? `${host} refused the token that you gave. The model's terms may have to be accepted on its page first.`
      : `${host} gives this out only to people it knows: accept the model's terms on its page there, and make a token that may read.`;
    part("token-forget").hidden = !hubToken();
  }

  hide() {
    this.#form.hidden = true;
  }
}
