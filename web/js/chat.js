// @ts-check
/** The conversation in view: the path through its tree as messages, and what is done with them. */

import { showMessage } from "./attachments.js";
import { copyFrom, part, stamp } from "./dom.js";
import { Reply } from "./reply.js";
import { canContinue, isWaiting, Tree } from "./tree.js";

/** @typedef {import("../worker/protocol.js").Message} Message */
/** @typedef {import("./tree.js").MessageNode} MessageNode */
/** @typedef {{node: MessageNode, element: HTMLElement, reply: Reply | null, text: string}} Item */

/** What a button of a message asks the page for. @typedef {"edit" | "again" | "continue"} Asked */

/** Replies further from the end than this are plain text at first, and drawn bit by bit. */
const DRAWN_AT_ONCE = 12;
const SLICE_MS = 12;

export class Chat extends EventTarget {
  #tree = new Tree();
  /** @type {Item[]} */
  #items = [];
  /** @type {Set<string>} Messages that no longer fit the context: the model is not given them. */
  #leftOut = new Set();
  #list = part("conversation");
  #empty = part("empty");
  #scroller = part("scroller");
  #toLatest = part("to-latest");
  #isFollowing = true;
  /** @type {Reply[]} To be drawn when there is time, the last first. */
  #later = [];

  constructor() {
    super();
    this.#list.addEventListener("click", (event) => this.#onClick(event));
    this.#scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.#toLatest.addEventListener("click", () => this.follow(true));
    new ResizeObserver(() => this.follow()).observe(this.#scroller);
  }

  get isEmpty() {
    return this.#items.length === 0;
  }

  get canContinue() {
    const last = this.#items.at(-1);
    return !!last && canContinue(last.node);
  }

  /** Of the last message that a person wrote; -1: there is none. */
  get lastUserIndex() {
    return this.#items.map(({ node }) => node.role).lastIndexOf("user");
  }

  /** @param {Tree} tree Another conversation. */
  show(tree) {
    this.#tree = tree;
    this.#leftOut.clear();
    [this.#items, this.#later] = [[], []];
    this.#list.replaceChildren();
    this.sync();
    this.follow(true);
  }

  /** Draws what changed: messages from the first one on that is not as it was drawn. */
  sync() {
    const path = this.#tree.path;
    const same = path.findIndex((node, i) => !this.#isDrawn(this.#items[i], node));
    for (const { element } of this.#items.splice(same < 0 ? path.length : same)) element.remove();
    for (let i = this.#items.length; i < path.length; i += 1) {
      this.#items.push(this.#draw(path[i], i < path.length - DRAWN_AT_ONCE));
    }
    if (this.#later.length) this.#drawLater();
    this.#empty.hidden = path.length > 0;
    // Then what is out of view is left out of layout too.
    this.#list.classList.toggle("is-long", path.length > 5 * DRAWN_AT_ONCE);
    for (const item of this.#items) this.#showVersions(item);
    this.#showLeftOut();
    this.follow();
  }

  /** @param {Item | undefined} item @param {MessageNode} node */
  #isDrawn(item, node) {
    if (item?.node !== node) return false;
    return item.reply ? !item.reply.isDone || item.reply.text === node.text : item.text === node.text;
  }

  /** @param {MessageNode} node @param {boolean} isLate @returns {Item} */
  #draw(node, isLate) {
    const element = stamp(`${node.role}-template`);
    this.#list.append(element);
    if (node.role === "assistant") {
      const reply = new Reply(node, element, () => this.follow());
      if (isLate) this.#later.push(reply.asText(node.text));
      else if (!isWaiting(node)) reply.finish(node.text, node.outcome ?? "");
      return { node, element, reply, text: "" };
    }
    showMessage(/** @type {HTMLElement} */ (element.querySelector(".body")), node.text);
    return { node, element, reply: null, text: node.text };
  }

  #drawLater() {
    setTimeout(() => {
      const began = performance.now();
      while (this.#later.length && performance.now() - began < SLICE_MS) {
        const reply = /** @type {Reply} */ (this.#later.pop());
        if (reply.element.isConnected) reply.finish(reply.node.text, reply.node.outcome ?? "");
      }
      if (this.#later.length) this.#drawLater();
    });
  }

  /** Where there are versions of a message: which one this is. @param {Item} item */
  #showVersions({ node, element }) {
    const versions = this.#tree.children(node.parent);
    const at = versions.indexOf(node);
    const bar = /** @type {HTMLElement} */ (element.querySelector(".versions"));
    bar.hidden = versions.length < 2;
    /** @type {HTMLElement} */ (bar.querySelector(".count")).textContent = `${at + 1}/${versions.length}`;
    const [older, newer] = bar.querySelectorAll("button");
    older.disabled = at === 0;
    newer.disabled = at === versions.length - 1;
    const more = element.querySelector("[data-action=continue]");
    if (more instanceof HTMLElement) more.hidden = !canContinue(node);
  }

  /**
   * What goes to the engine for a reply: the path up to it, without what no longer fits and without
   * messages that got no reply; at the end the reply's own text, if it is to go on.
   * @param {MessageNode} reply
   */
  messagesFor(reply) {
    const path = this.#tree.path;
    const given = this.#given(path.slice(0, path.indexOf(reply)));
    if (reply.text) given.push(reply);
    return given.map(({ role, text }) => /** @type {Message} */ ({ role, content: text }));
  }

  /** @param {MessageNode[]} path */
  #given(path) {
    return path.filter((node, i) => {
      const next = path[i + 1];
      if (!next) return true;
      if (this.#leftOut.has(node.id)) return false;
      return node.role === "assistant" ? node.text : next.role === "assistant" && next.text;
    });
  }

  /**
   * @param {string} text
   * @param {number | null} [instead] The message that this is a new version of.
   */
  addUser(text, instead = null) {
    const edited = instead === null ? null : this.#items[instead].node;
    this.#tree.add(edited ? this.#tree.get(edited.parent ?? "") : this.#tree.last, "user", text);
    this.sync();
    this.follow(true);
  }

  /**
   * The reply to the last message; a new version if it has one.
   * @param {string} label Shown until the first text comes.
   */
  beginReply(label) {
    const last = /** @type {MessageNode} */ (this.#tree.last);
    const asked = last.role === "user" ? last : this.#tree.get(last.parent ?? "");
    const isEmpty = last.role === "assistant" && !last.text;
    if (isEmpty) delete last.finish;
    else this.#tree.add(asked, "assistant", "");
    this.sync();
    const reply = /** @type {Reply} */ (this.#items[this.#items.length - 1].reply);
    reply.wait(label);
    this.follow(true);
    return reply;
  }

  /** The last reply, to be written on. */
  resumeReply() {
    const reply = /** @type {Reply} */ (this.#items[this.#items.length - 1].reply);
    reply.resume();
    this.follow(true);
    return reply;
  }

  /** Takes a reply away, and leaves its message to be answered again. @param {Reply} reply */
  dropReply(reply) {
    this.#tree.remove(reply.node.id);
    this.sync();
  }

  /**
   * Takes back the last message, which was not answered; it stays, marked, if it cannot move.
   * @param {boolean} canMove
   * @returns {string} Its text if it went.
   */
  takeBack(canMove) {
    const last = this.#items[this.lastUserIndex];
    if (!last) return "";
    if (!canMove) {
      last.element.classList.add("not-sent");
      return "";
    }
    this.#tree.remove(last.node.id);
    this.sync();
    return last.node.text;
  }

  /**
   * Marks messages that the model was not given, and will not be again.
   * @param {number} nMessages From the first that it was still given before.
   */
  leaveOut(nMessages) {
    for (const { id } of this.#given(this.#tree.path).slice(0, nMessages)) this.#leftOut.add(id);
    this.#showLeftOut();
  }

  /** A model with another context starts with the whole conversation again. */
  takeAllIn() {
    this.#leftOut.clear();
    this.#showLeftOut();
  }

  /** A line after the last message that is left out. */
  #showLeftOut() {
    this.#list.querySelector(".left-out-note")?.remove();
    const out = this.#items.filter(({ node }) => this.#leftOut.has(node.id));
    for (const { element, node } of this.#items) {
      element.classList.toggle("left-out", this.#leftOut.has(node.id));
    }
    if (!out.length) return;
    const note = document.createElement("p");
    note.className = "left-out-note muted";
    note.dataset.testid = "left-out";
    note.textContent = "The context is full: the model no longer sees what is above this line.";
    out[out.length - 1].element.after(note);
  }

  /**
   * Dims what an edit will replace.
   * @param {number | null} index
   */
  markReplaced(index) {
    this.#items.forEach(({ element }, i) => {
      element.classList.toggle("replaced", index !== null && i >= index);
    });
  }

  /** @param {number} index */
  userText(index) {
    return this.#items[index].node.text;
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
    const index = this.#items.findIndex(({ element }) => element === message);
    if (index < 0) return;
    const { node, reply } = this.#items[index];
    const action = button.dataset.action;
    if (action === "copy") void copyFrom(button, reply ? reply.text : node.text);
    else if (action === "older") this.#step(node, -1);
    else if (action === "newer") this.#step(node, 1);
    else this.dispatchEvent(new CustomEvent(/** @type {Asked} */ (action), { detail: index }));
  }

  /** @param {MessageNode} node @param {number} by Versions to go on or back. */
  #step(node, by) {
    const versions = this.#tree.children(node.parent);
    const other = versions[versions.indexOf(node) + by];
    if (!other) return;
    this.dispatchEvent(new CustomEvent("choosing"));
    this.#tree.choose(other.id);
    this.#leftOut.clear();
    this.sync();
    const shown = this.#items.find((item) => item.node === other);
    const buttons = [...(shown?.element.querySelectorAll(".versions button") ?? [])];
    const next = by < 0 ? buttons : buttons.reverse();
    /** @type {HTMLElement | undefined} */ (next.find((button) => !button.matches(":disabled")))?.focus();
    this.dispatchEvent(new CustomEvent("choose"));
  }
}
