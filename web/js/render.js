// @ts-check
/**
 * A reply in an element: its thought folded, its Markdown as safe nodes, drawn as it comes.
 *
 * render_thought.js takes the thought off, render_units.js cuts the Markdown into units,
 * render_stream.js draws those that changed, render_markdown.js makes safe nodes, render_code.js
 * shows code.
 */

import { MarkdownStream } from "./render_stream.js";
import { splitThought, ThoughtView } from "./render_thought.js";

export { splitThought };

export class ReplyRenderer {
  #stream;
  /** @type {ThoughtView | null} */
  #thought = null;

  /** @param {HTMLElement} target */
  constructor(target) {
    this.target = target;
    this.#stream = new MarkdownStream(target);
  }

  /** @param {string} text All of the reply so far. */
  update(text) {
    const answer = this.#split(text, true);
    if (answer) this.#stream.update(answer);
  }

  /**
   * The last pass, over the whole text.
   * @param {string} text
   */
  finish(text) {
    this.#stream.finish(this.#split(text, false));
  }

  clear() {
    this.target.replaceChildren();
    this.#stream = new MarkdownStream(this.target);
    this.#thought = null;
  }

  /**
   * Shows the thought of a text.
   * @param {string} text
   * @param {boolean} isLive The text still comes in.
   * @returns {string} Its answer.
   */
  #split(text, isLive) {
    const plain = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    const { thought, answer, isThinking } = splitThought(plain);
    if (thought) {
      if (!this.#thought) {
        this.#thought = new ThoughtView();
        this.target.prepend(this.#thought.element);
      }
      this.#thought.show(thought, isThinking, isLive);
    }
    return !isLive && !thought && isThinking ? plain : answer;
  }
}
