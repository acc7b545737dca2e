// @ts-check
/** Keys that work anywhere on the page, and the list of them. */

import { part } from "./dom.js";

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

/**
 * Escape (stop, or leave an edit) is the message field's own.
 * @param {object} actions
 * @param {() => void} actions.onNewChat
 * @param {() => void} actions.onSearch
 * @param {() => void} actions.onFocus
 * @param {() => void} actions.onEditLast
 */
export function wireShortcuts({ onNewChat, onSearch, onFocus, onEditLast }) {
  const dialog = /** @type {HTMLDialogElement} */ (part("shortcuts-dialog"));
  const input = /** @type {HTMLTextAreaElement} */ (part("input"));
  const show = () => dialog.showModal();
  part("shortcuts-button").addEventListener("click", show);
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  for (const key of dialog.querySelectorAll("[data-key=mod]")) key.textContent = isMac ? "⌘" : "Ctrl";

  /** @param {KeyboardEvent} event @returns {(() => void) | null} */
  const actionOf = (event) => {
    const isMod = isMac ? event.metaKey : event.ctrlKey;
    const key = event.key.toLowerCase();
    if (event.altKey || event.isComposing || document.querySelector("dialog[open]")) return null;
    if (isMod && event.shiftKey && key === "o") return onNewChat;
    if (isMod && !event.shiftKey && key === "k") return onSearch;
    if (isMod && key === "/") return show;
    if (event.ctrlKey || event.metaKey) return null;
    const isPlain = !event.shiftKey && event.target === input && !input.value;
    if (key === "arrowup" && isPlain) return onEditLast;
    if (isTyping(event.target)) return null;
    if (key === "?") return show;
    return key === "/" ? onFocus : null;
  };
  document.addEventListener("keydown", (event) => {
    const action = actionOf(event);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
