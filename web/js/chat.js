// @ts-check
/** The conversation: what was said, and how it is shown. */

import { showMessage } from "./attachments.js";
import { copyFrom, part, stamp } from "./dom.js";
import { Reply } from "./reply.js";

/** @typedef {import("../worker/protocol.js").Message} Message */

/**
 * Turns in order: a user's message, then its reply once there is one.
 * `isLeftOut`: it no longer fits the context, so the model is not given it any more.
 * @typedef {{user: string, element: HTMLElement, reply: Reply | null, isLeftOut: boolean}} Turn
 */

export class Chat extends EventTarget {
  /** @type {Turn[]} */
  #turns = [];
  #list = part("conversation");
  #empty = part("empty");
  #scroller = part("scroller");
  #toLatest = part("to-latest");
  #isFollowing = true;

  constructor() {
    super();
    this.#list.addEventListener("click", (event) => this.#onClick(event));
    this.#scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.#toLatest.addEventListener("click", () => this.follow(true));
    new ResizeObserver(() => this.follow()).observe(this.#scroller);
  }

  get isEmpty() {
    return this.#turns.length === 0;
  }

  /** What goes to the engine: turns that got no reply are left out, but for the last. */
  get messages() {
    /** @type {Message[]} */
    const messages = [];
    this.#turns.forEach(({ user, reply, isLeftOut }, i) => {
      const isLast = i === this.#turns.length - 1;
      if (!isLast && (isLeftOut || !reply?.text)) return;
      messages.push({ role: "user", content: user });
      if (!isLast && reply) messages.push({ role: "assistant", content: reply.text });
    });
    return messages;
  }

  /** @param {string} text */
  addUser(text) {
    const element = stamp("user-template");
    showMessage(/** @type {HTMLElement} */ (element.querySelector(".body")), text);
    this.#list.append(element);
    this.#turns.push({ user: text, element, reply: null, isLeftOut: false });
    this.#empty.hidden = true;
    this.follow(true);
  }

  /**
   * The reply to the last message, in place of the one it has, if any.
   * @param {string} label Shown until the first text comes.
   */
  beginReply(label) {
    const turn = this.#turns[this.#turns.length - 1];
    turn.reply?.element.remove();
    const reply = new Reply(stamp("assistant-template"), () => this.follow());
    turn.reply = reply;
    reply.wait(label);
    this.#list.append(reply.element);
    this.follow(true);
    return reply;
  }

  /** Takes the last reply away and leaves its message, to be answered again. */
  dropReply() {
    const turn = this.#turns[this.#turns.length - 1];
    turn?.reply?.element.remove();
    if (turn) turn.reply = null;
  }

  /**
   * Marks exchanges that the model was not given, and will not be again.
   * @param {number} nMessages From the first that it was still given before.
   */
  leaveOut(nMessages) {
    const given = this.#turns.slice(0, -1).filter((turn) => !turn.isLeftOut && turn.reply?.text);
    for (const turn of given.slice(0, Math.ceil(nMessages / 2))) turn.isLeftOut = true;
    this.#showLeftOut();
  }

  /** A model with another context starts with the whole conversation again. */
  takeAllIn() {
    for (const turn of this.#turns) turn.isLeftOut = false;
    this.#showLeftOut();
  }

  /** A line after the last exchange that is left out. */
  #showLeftOut() {
    this.#list.querySelector(".left-out-note")?.remove();
    for (const { element, reply, isLeftOut } of this.#turns) {
      element.classList.toggle("left-out", isLeftOut);
      reply?.element.classList.toggle("left-out", isLeftOut);
    }
    const last = this.#turns.filter((turn) => turn.isLeftOut).pop();
    if (!last) return;
    const note = document.createElement("p");
    note.className = "left-out-note muted";
    note.dataset.testid = "left-out";
    note.textContent = "The context is full: the model no longer sees what is above this line.";
    (last.reply?.element ?? last.element).after(note);
  }

  /**
   * Takes back the last message, which the engine refused; it stays, marked, if it cannot move.
   * @param {boolean} canMove
   * @returns {string} Its text if it went.
   */
  takeBack(canMove) {
    const last = this.#turns[this.#turns.length - 1];
    if (!canMove) {
      last.element.classList.add("not-sent");
      return "";
    }
    this.cut(this.#turns.length - 1);
    return last.user;
  }
  /** @param {number} index Turns from here on go. */
  cut(index) {
    for (const turn of this.#turns.splice(index)) {
      turn.element.remove();
      turn.reply?.element.remove();
    }
    this.#empty.hidden = this.#turns.length > 0;
    this.#showLeftOut();
  }

  /**
   * Dims what an edit will replace.
   * @param {number | null} index
   */
  markReplaced(index) {
    this.#turns.forEach(({ element, reply }, i) => {
      const isReplaced = index !== null && i >= index;
      element.classList.toggle("replaced", isReplaced);
      reply?.element.classList.toggle("replaced", isReplaced);
    });
  }

  /** @param {number} index */
  userText(index) {
    return this.#turns[index].user;
  }

  get length() {
    return this.#turns.length;
  }

  /**
   * Keeps the end in view, unless the person scrolled away from it.
   * @param {boolean} [isForced]
   */
  follow(isForced = false) {
    if (isForced) this.#isFollowing = true;
    if (this.#isFollowing) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#onScroll();
  }

  #onScroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const distance = scrollHeight - scrollTop - clientHeight;
    this.#isFollowing = distance < 48;
    this.#toLatest.hidden = distance < 160 || this.isEmpty;
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const button = /** @type {Element} */ (event.target).closest("button[data-action]");
    if (!(button instanceof HTMLElement)) return;
    const message = button.closest(".message");
    const index = this.#turns.findIndex((t) => t.element === message || t.reply?.element === message);
    if (index < 0) return;
    const { user, reply, element } = this.#turns[index];
    const action = button.dataset.action;
    if (action === "copy") {
      void copyFrom(button, message === element ? user : (reply?.text ?? ""));
    } else {
      this.dispatchEvent(new CustomEvent(action === "edit" ? "edit" : "again", { detail: index }));
    }
  }
}
