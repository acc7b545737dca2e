// @ts-check
/** A reply in the conversation: as it is written, and the line of facts under it. */

import { formatNumber, formatSeconds } from "./dom.js";
import { ReplyRenderer } from "./render.js";

/** @typedef {import("../worker/protocol.js").ReplyStats} ReplyStats */

const OUTCOMES = {
  stop: "",
  length: "Cut at the length limit",
  cancelled: "Stopped",
  context_full: "The context is full",
};

/** @param {ReplyStats} stats Tokens a second after the first token; 0 when there is none to count. */
export function decodeSpeed({ nGenerated, decodeMs }) {
  return nGenerated > 1 && decodeMs > 0 ? ((nGenerated - 1) * 1000) / decodeMs : 0;
}

/**
 * @param {ReplyStats} stats
 * @param {string} [variation] How this reply was made to differ from the one before.
 * @returns {string} One line for under the reply.
 */
export function describeStats(stats, variation = "") {
  const speed = decodeSpeed(stats);
  return [
    OUTCOMES[stats.finishReason],
    variation,
    `${stats.nGenerated} ${stats.nGenerated === 1 ? "token" : "tokens"}`,
    speed ? `${formatNumber(speed)} tokens/s` : "",
    stats.nGenerated ? `first after ${formatSeconds(stats.prefillMs)}` : "",
    stats.hasExamples ? "" : "asked without examples, which do not fit the context",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** A reply while it is being written; draws at most once per animation frame. */
export class Reply {
  text = "";
  #frame = 0;
  #isDone = false;

  /**
   * @param {import("./tree.js").MessageNode} node What it is in the conversation.
   * @param {HTMLElement} element
   * @param {() => void} onDraw Runs after each drawing, in the same frame.
   */
  constructor(node, element, onDraw) {
    this.node = node;
    this.element = element;
    this.body = /** @type {HTMLElement} */ (element.querySelector(".body"));
    this.renderer = new ReplyRenderer(this.body);
    this.onDraw = onDraw;
  }

  /** @param {string} label What is being waited for; shown in place of the text. */
  wait(label) {
    this.#isDone = false;
    this.element.dataset.status = "waiting";
    const line = document.createElement("p");
    line.className = "pending";
    line.textContent = label;
    this.body.replaceChildren(line);
  }

  /** Shows the text as it is, to be finished later. @param {string} text */
  asText(text) {
    this.text = text;
    this.#isDone = true;
    this.body.textContent = text;
    return this;
  }

  get isDone() {
    return this.#isDone;
  }

  /** Goes on writing after its text, which was cut short. */
  resume() {
    this.#isDone = false;
    this.element.dataset.status = "streaming";
    this.body.classList.add("streaming");
    this.renderer.clear();
    this.renderer.update(this.text);
  }

  /** @param {string} piece */
  append(piece) {
    if (this.#isDone) return; // pieces come over a channel of their own: the end may overtake them
    if (!this.text) this.body.replaceChildren();
    this.text += piece;
    this.element.dataset.status = "streaming";
    this.body.classList.add("streaming");
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.renderer.update(this.text);
      this.onDraw();
    });
  }

  /**
   * @param {string} text
   * @param {string} outcome
   */
  finish(text, outcome) {
    const { status } = this.element.dataset;
    if (!status || status === "waiting") this.renderer.clear(); // words in its place
    this.#isDone = true;
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.text = text;
    this.body.classList.remove("streaming");
    this.element.dataset.status = "done";
    this.body.querySelector(".no-text")?.remove();
    this.renderer.finish(text);
    if (!text.trim()) {
      const line = document.createElement("p");
      line.className = "muted no-text";
      line.textContent = "No text came back.";
      this.body.append(line);
    }
    /** @type {HTMLElement} */ (this.element.querySelector(".outcome")).textContent = outcome;
    this.onDraw();
  }
}
