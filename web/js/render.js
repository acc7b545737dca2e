// @ts-check
/**
 * A reply's Markdown as document nodes.
 *
 * The text is untrusted: marked makes HTML of it, DOMPurify keeps an allow-list of text markup, and
 * the result is inserted as nodes. Nothing in it can load: no images, media, frames, styles, ids.
 */

import { Marked } from "../vendor/marked.esm.js";
import DOMPurify from "../vendor/purify.es.mjs";
import { copyFrom, icon } from "./dom.js";

const KEPT = {
  ALLOWED_TAGS: (
    "p br strong em b i del s sub sup code pre ul ol li blockquote hr a " +
    "h1 h2 h3 h4 h5 h6 table thead tbody tr th td"
  ).split(" "),
  ALLOWED_ATTR: ["href", "start", "colspan", "rowspan"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: /** @type {const} */ (true),
};

/** @param {string} text */
const escape = (text) =>
  text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

const PLAIN_TAG = /^(?:<br ?\/?>|<\/?(?:b|i|em|strong|s|sub|sup)>)$/;

const markdown = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML in a reply is text to read, bar a few plain tags that models use inside Markdown.
    html: ({ text, block }) => {
      if (PLAIN_TAG.test(text.trim())) return text;
      return block ? `<p>${escape(text.trim()).replaceAll("\n", "<br>")}</p>` : escape(text);
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // Fetching an image would tell its host what was said here; a link leaves that to the reader.
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
});

/**
 * @param {string} raw
 * @returns {DocumentFragment}
 */
function sanitize(raw) {
  const fragment = DOMPurify.sanitize(raw, KEPT);
  for (const link of fragment.querySelectorAll("a")) {
    link.rel = "noopener noreferrer nofollow";
    link.target = "_blank";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table";
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
  return fragment;
}

/** @param {ParentNode} root */
function addCopyButtons(root) {
  for (const pre of root.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tool";
    button.setAttribute("aria-label", "Copy this code");
    button.append(icon("copy"));
    button.addEventListener("click", () => void copyFrom(button, pre.textContent ?? ""));
    const frame = document.createElement("div");
    frame.className = "code";
    pre.tabIndex = 0;
    pre.replaceWith(frame);
    frame.append(pre, button);
  }
}

/**
 * A model that reasons first writes it between <think> tags.
 * @param {string} text
 * @returns {{thought: string, answer: string, isThinking: boolean}}
 */
export function splitThought(text) {
  const found = /^\s*<think>([\s\S]*?)(<\/think>|$)/.exec(text);
  if (!found) return { thought: "", answer: text, isThinking: false };
  return {
    thought: found[1].trim(),
    answer: text.slice(found[0].length).trimStart(),
    isThinking: found[2] === "",
  };
}

/**
 * Writes a growing reply into an element. Blocks that did not change keep their nodes, so a
 * selection survives and a long reply costs only its last block per frame.
 */
export class ReplyRenderer {
  /** @type {{raw: string, nodes: ChildNode[]}[]} */
  #blocks = [];
  /** @type {HTMLDetailsElement | null} */
  #thinking = null;

  /** @param {HTMLElement} target */
  constructor(target) {
    this.target = target;
  }

  /** @param {string} text All of the reply so far. */
  update(text) {
    const { thought, answer, isThinking } = splitThought(text);
    if (thought) this.#showThought(thought, isThinking);
    const tokens = markdown.lexer(answer).filter((token) => token.type !== "space");
    let same = 0;
    while (same < this.#blocks.length && this.#blocks[same].raw === tokens[same]?.raw) same += 1;
    for (const block of this.#blocks.splice(same)) block.nodes.forEach((node) => node.remove());
    for (const token of tokens.slice(same)) {
      const nodes = [...sanitize(markdown.parser([token])).childNodes];
      this.target.append(...nodes);
      this.#blocks.push({ raw: token.raw, nodes });
    }
  }

  /**
   * The last pass, over the whole text: link definitions that came late now count.
   * @param {string} text
   */
  finish(text) {
    const wasOpen = this.#thinking?.open ?? false;
    this.clear();
    this.update(text);
    if (this.#thinking) this.#thinking.open = wasOpen;
    addCopyButtons(this.target);
  }

  clear() {
    this.#blocks = [];
    this.#thinking = null;
    this.target.replaceChildren();
  }

  /**
   * @param {string} thought
   * @param {boolean} isThinking
   */
  #showThought(thought, isThinking) {
    if (!this.#thinking) {
      this.#thinking = document.createElement("details");
      this.#thinking.className = "thinking";
      this.#thinking.append(document.createElement("summary"), document.createElement("div"));
      this.target.prepend(this.#thinking);
    }
    const [summary, body] = this.#thinking.children;
    summary.textContent = isThinking ? "Thinking" : "Thought first";
    body.textContent = thought;
  }
}
