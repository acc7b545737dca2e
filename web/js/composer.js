// @ts-check
/** The message field: Enter sends, Shift+Enter breaks the line, it grows with its text. */

import { Attachments, joinMessage, splitMessage } from "./attachments.js";
import { part } from "./dom.js";

export class Composer {
  #form = /** @type {HTMLFormElement} */ (part("composer"));
  #input = /** @type {HTMLTextAreaElement} */ (part("input"));
  #send = /** @type {HTMLButtonElement} */ (part("send"));
  #stop = part("stop");
  #editing = part("editing");
  #attachments = new Attachments(() => this.#refresh());
  /** @type {number | null} The turn that the text will replace. */
  #editIndex = null;
  /** What stood in the field before the edit. */
  #draft = "";
  #canSend = false;

  /**
   * @param {object} actions
   * @param {(text: string, editIndex: number | null) => boolean} actions.onSend True if it took the text.
   * @param {() => void} actions.onStop
   * @param {(editIndex: number | null) => void} actions.onEdit An edit begins, or ends (null).
   */
  constructor({ onSend, onStop, onEdit }) {
    this.onSend = onSend;
    this.onEdit = onEdit;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#input.addEventListener("keydown", (event) => this.#onKey(event));
    this.#input.addEventListener("input", () => this.#refresh());
    this.#stop.addEventListener("click", onStop);
    part("edit-cancel").addEventListener("click", () => this.cancelEdit());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      if (document.querySelector("dialog[open]")) return;
      if (this.#editIndex !== null) this.cancelEdit();
      else if (!this.#stop.hidden) onStop();
    });
  }

  /** The message as it goes to the model, attached files included. */
  get text() {
    return joinMessage(this.#input.value, this.#attachments.files);
  }

  set text(message) {
    const { text, files } = splitMessage(message);
    this.#input.value = text;
    this.#attachments.files = files;
  }

  get isEditing() {
    return this.#editIndex !== null;
  }

  /**
   * @param {object} mode
   * @param {boolean} mode.canSend The button; Enter asks onSend in any case.
   * @param {boolean} mode.canStop
   */
  setMode({ canSend, canStop }) {
    const hadFocus = document.activeElement === this.#stop || document.activeElement === this.#send;
    this.#canSend = canSend;
    this.#stop.hidden = !canStop;
    this.#send.hidden = canStop;
    this.#refresh();
    if (hadFocus) this.focus();
  }

  focus() {
    this.#input.focus({ preventScroll: true });
  }

  /** On a phone focus would open the keyboard over the page, so it is left to the person there. */
  focusUnlessTouch() {
    if (matchMedia("(pointer: fine)").matches && !document.querySelector("dialog[open]")) this.focus();
  }

  /**
   * @param {number} index
   * @param {string} text
   */
  edit(index, text) {
    if (this.#editIndex === null) this.#draft = this.text;
    this.#editIndex = index;
    this.#editing.hidden = false;
    this.text = text;
    this.focus();
    this.onEdit(index);
  }

  cancelEdit() {
    if (this.#editIndex === null) return;
    this.#endEdit();
    this.focus();
  }

  #endEdit() {
    this.#editIndex = null;
    this.#editing.hidden = true;
    this.text = this.#draft;
    this.#draft = "";
    this.onEdit(null);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    // While an input method composes, Enter picks its candidate.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#submit();
  }

  #submit() {
    const text = joinMessage(this.#input.value.trim(), this.#attachments.files);
    if (!text || !this.onSend(text, this.#editIndex)) return;
    if (this.#editIndex !== null) this.#endEdit();
    else this.text = "";
  }

  #refresh() {
    const isEmpty = !this.#input.value.trim() && this.#attachments.files.length === 0;
    this.#send.disabled = !this.#canSend || isEmpty;
    if (CSS.supports("field-sizing", "content")) return;
    this.#input.style.height = "auto";
    this.#input.style.height = `${this.#input.scrollHeight}px`;
  }
}

/**
 * The suggestions of an empty page.
 * @param {Composer} composer
 * @param {(text: string, editIndex: null) => boolean} send
 */
export function wireStarters(composer, send) {
  for (const starter of document.querySelectorAll(".starter")) {
    starter.addEventListener("click", () => {
      const text = starter.textContent ?? "";
      if (!send(text, null)) composer.text = text;
      composer.focusUnlessTouch();
    });
  }
}
