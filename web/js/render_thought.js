// @ts-check
/** What a model thinks before it answers, folded away. */

import { formatNumber } from "./dom.js";

/** How models mark it: the opening and the closing. */
const MARKS = [
  ["<think>", "</think>"],
  ["<thinking>", "</thinking>"],
  ["<thought>", "</thought>"],
  ["<reasoning>", "</reasoning>"],
  ["[THINK]", "[/THINK]"],
  ["<|channel|>analysis<|message|>", "<|end|>"],
];
/** What gpt-oss writes between its thought and its answer, and after it. */
const CHANNEL = /^\s*(?:<\|start\|>assistant)?(?:<\|channel\|>(?:final|commentary)[^<]*<\|message\|>)?/;
const CHANNEL_END = /<\|(?:return|end)\|>\s*$/;

/**
 * @param {string} text
 * @returns {{thought: string, answer: string, isThinking: boolean}}
 */
export function splitThought(text) {
  const begin = text.length - text.trimStart().length;
  for (const [open, close] of MARKS) {
    if (!text.startsWith(open, begin)) {
      // The opening may still be coming in, piece by piece.
      const isPartial = text.length > begin && open.startsWith(text.slice(begin, begin + open.length));
      if (isPartial) return { thought: "", answer: "", isThinking: true };
      continue;
    }
    const from = begin + open.length;
    const end = text.indexOf(close, from);
    if (end < 0) return { thought: withoutPartial(text.slice(from), close), answer: "", isThinking: true };
    return split(text, from, end, close);
  }
  // Some templates open the thought themselves, so that the reply only closes it.
  const [, close] = MARKS[0];
  const end = text.indexOf(close);
  if (end >= 0 && !text.slice(0, end).includes("`")) return split(text, 0, end, close);
  return { thought: "", answer: text, isThinking: false };
}

/**
 * @param {string} text
 * @param {number} from
 * @param {number} end
 * @param {string} close
 */
function split(text, from, end, close) {
  const thought = text.slice(from, end).trim();
  let answer = text.slice(end + close.length).trimStart();
  if (close.startsWith("<|")) answer = answer.replace(CHANNEL, "").replace(CHANNEL_END, "");
  return { thought, answer, isThinking: false };
}

/** @param {string} text @param {string} close */
function withoutPartial(text, close) {
  const at = text.lastIndexOf(close[0]);
  return (at >= 0 && close.startsWith(text.slice(at)) ? text.slice(0, at) : text).trim();
}

export class ThoughtView {
  element = document.createElement("details");
  #summary = document.createElement("summary");
  #text = document.createTextNode("");
  #began = performance.now();
  #lastMs = 0;

  constructor() {
    this.element.className = "thinking";
    this.element.dataset.testid = "thought";
    const body = document.createElement("div");
    body.dir = "auto";
    body.append(this.#text);
    this.element.append(this.#summary, body);
  }

  /**
   * @param {string} thought All of it so far.
   * @param {boolean} isThinking
   * @param {boolean} isLive It was watched as it came, so its time is known.
   */
  show(thought, isThinking, isLive) {
    const old = this.#text.data;
    if (thought.startsWith(old)) this.#text.appendData(thought.slice(old.length));
    else this.#text.data = thought;
    this.element.classList.toggle("is-live", isThinking && isLive);
    if (isThinking) this.#lastMs = performance.now() - this.#began;
    this.#summary.textContent = isThinking && isLive ? "Thinking…" : this.#outcome();
  }

  #outcome() {
    const seconds = this.#lastMs / 1000;
    if (!seconds) return "Thought first";
    return `Thought for ${seconds < 10 ? formatNumber(Math.max(seconds, 0.1)).replace(/(\.\d)\d$/, "$1") : Math.round(seconds)} s`;
  }
}
