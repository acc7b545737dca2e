// @ts-check
/**
 * A growing Markdown text in an element. What is certain not to change is never read again, so a
 * piece costs the same at the end of a long reply as at its start; the few units before the end
 * are read anew each time, and those that come out the same keep their nodes.
 */

import { CodeView, dressCode } from "./render_code.js";
import { safeNodes } from "./render_markdown.js";
import { settled, unitsOf } from "./render_units.js";

/** @typedef {import("./render_units.js").Unit} Unit */
/**
 * @typedef {object} Drawn
 * @property {Unit} unit
 * @property {Element[]} nodes What goes when the unit is drawn anew.
 * @property {Element | null} container The list, or the table's body, that takes the next units.
 * @property {CodeView | null} code The unit itself, if it is code.
 * @property {CodeView[]} codes All code in it.
 */

/** Units that text to come may still change, with some to spare: a list's last item, a heading. */
const N_OPEN = 4;
/** Lines of an open code block that are read again (its closing fence may have begun). */
const N_CODE_LINES = 2;
const PARTIAL_FENCE = /(?:^|\n) {0,3}(?:`{1,2}|~{1,2})$/;

export class MarkdownStream {
  #target;
  /** The text before is drawn for good. */
  #offset = 0;
  /** What stands before the rest, so that it is read as part of the block it is in. */
  #prefix = "";
  /** @type {Drawn[]} All units, in order. */
  #drawn = [];
  /** Of these, the ones that are drawn for good. */
  #nKept = 0;
  /** Length of the text that is drawn for good in an open code block. */
  #codeLength = 0;
  /** The rest begins within a list. */
  #isInList = false;

  /** @param {HTMLElement} target */
  constructor(target) {
    this.#target = target;
  }

  /** @param {string} text All so far. */
  update(text) {
    const rest = text.slice(this.#offset);
    let units = this.#read(rest);
    const last = units[units.length - 1];
    const isCode = last?.kind === "code";
    if (last && !isCode) {
      const shown = settled(rest, Math.max(last.start, 0));
      if (shown !== rest) units = this.#read(shown);
    }
    this.#draw(units, isCode);
    this.#keep(units, rest, isCode);
  }

  /**
   * The last pass, over the whole text: what came late (the target of a link) now counts.
   * @param {string} text
   */
  finish(text) {
    this.#nKept = this.#offset = this.#codeLength = 0;
    this.#prefix = "";
    this.#isInList = false;
    this.#draw(unitsOf(text), false);
    for (const { codes } of this.#drawn) codes.forEach((code) => code.finish());
  }

  /** @param {string} rest */
  #read(rest) {
    const units = unitsOf(this.#prefix + rest);
    if (this.#isInList && units[0]?.kind === "item") units[0].isFirst = false;
    if (!this.#prefix) return units;
    // The part of a table that was only put in front is drawn already.
    if (units[0]?.kind === "head") units.shift();
    for (const unit of units) unit.start -= this.#prefix.length;
    return units;
  }

  /**
   * @param {Unit[]} units Those after the ones that are kept.
   * @param {boolean} isGrowing The last one is code that goes on.
   */
  #draw(units, isGrowing) {
    const { code } = this.#drawn[this.#nKept - 1] ?? {};
    let first = 0;
    if (this.#codeLength && code && units[0]?.kind === "code") {
      code.setText(steadyCode(units[0].html, isGrowing && units.length === 1), this.#codeLength);
      if (units.length > 1) code.finish();
      first = 1;
    }
    let at = this.#nKept;
    let isSame = true;
    for (const unit of units.slice(first)) {
      const old = isSame ? this.#drawn[at] : undefined;
      if (old && this.#redraw(old, unit, isGrowing)) {
        at += 1;
        continue;
      }
      if (isSame) this.#cut(at);
      isSame = false;
      this.#append(unit, isGrowing);
      at += 1;
    }
    if (isSame) this.#cut(at);
    for (const { codes } of this.#drawn.slice(this.#nKept, -1)) codes.forEach((one) => one.finish());
  }

  /**
   * Makes what is drawn into a unit, if it is of the same kind.
   * @param {Drawn} old
   * @param {Unit} unit
   * @param {boolean} isGrowing
   * @returns {boolean} False: it has to go.
   */
  #redraw(old, unit, isGrowing) {
    const isKind = old.unit.kind === unit.kind && old.unit.isFirst === unit.isFirst;
    if (!isKind || old.unit.language !== unit.language) return false;
    if (old.code) {
      old.code.setText(steadyCode(unit.html, isGrowing));
    } else if (old.unit.html !== unit.html) {
      const fresh = safeNodes(unit.html);
      const codes = dressCode(fresh);
      if (unit.kind === "head" || (unit.kind === "item" && unit.isFirst)) {
        if (!replaceFirst(old, fresh)) return false;
      } else {
        const nodes = unit.kind === "block" ? elementsOf(fresh) : innerOf(unit, fresh);
        old.nodes[0]?.before(...nodes);
        old.nodes.forEach((node) => node.remove());
        if (old.nodes.length === 0) return false;
        old.nodes = nodes;
      }
      old.codes = codes;
    }
    old.unit = unit;
    return true;
  }

  /** @param {number} count Units from here on go. */
  #cut(count) {
    for (const { nodes } of this.#drawn.splice(count)) nodes.forEach((node) => node.remove());
  }

  /** @param {Unit} unit @param {boolean} isGrowing */
  #append(unit, isGrowing) {
    const before = this.#drawn[this.#drawn.length - 1]?.container ?? null;
    if (unit.kind === "code") {
      const code = new CodeView(unit.language);
      code.setText(steadyCode(unit.html, isGrowing));
      this.#target.append(code.element);
      this.#drawn.push({ unit, nodes: [code.element], container: null, code, codes: [code] });
      return;
    }
    const fragment = safeNodes(unit.html);
    const codes = dressCode(fragment);
    const isInside = unit.kind === "row" || (unit.kind === "item" && !unit.isFirst);
    if (isInside && before) {
      const nodes = innerOf(unit, fragment);
      before.append(...nodes);
      this.#drawn.push({ unit, nodes, container: before, code: null, codes });
      return;
    }
    const nodes = unit.kind === "head" ? [framed(fragment)] : elementsOf(fragment);
    this.#target.append(...nodes);
    this.#drawn.push({ unit, nodes, container: containerOf(unit, nodes), code: null, codes });
  }

  /**
   * Draws a line under what can no longer change.
   * @param {Unit[]} units
   * @param {string} rest
   * @param {boolean} isCode
   */
  #keep(units, rest, isCode) {
    if (isCode && this.#keepCode(units, rest)) return;
    const next = units[units.length - N_OPEN];
    if (!next || next.start <= 0) return;
    if (!rest.startsWith(next.raw, next.start)) return; // it was not read as it was written
    this.#offset += next.start;
    this.#prefix = next.kind === "row" ? next.prefix : "";
    this.#isInList = next.kind === "item" && !next.isFirst;
    this.#nKept = this.#drawn.length - N_OPEN;
    this.#codeLength = 0;
  }

  /**
   * The lines of an open code block at the end; nothing before it can change any more.
   * @param {Unit[]} units
   * @param {string} rest
   */
  #keepCode(units, rest) {
    const unit = units[units.length - 1];
    const isContinued = this.#codeLength > 0 && units.length === 1;
    let end = rest.length;
    for (let i = 0; i <= N_CODE_LINES && end > 0; i += 1) end = rest.lastIndexOf("\n", end - 1);
    const begin = isContinued ? 0 : unit.start + unit.prefix.length;
    const body = rest.slice(begin, end + 1);
    if (!unit.prefix || !body || !unit.html.startsWith(body)) return false; // or it is indented
    this.#codeLength = body.length + (isContinued ? this.#codeLength : 0);
    this.#offset += end + 1;
    this.#prefix = unit.prefix;
    this.#isInList = false;
    this.#nKept = this.#drawn.length;
    return true;
  }
}

/** @param {string} text @param {boolean} isGrowing Its closing fence may have begun. */
function steadyCode(text, isGrowing) {
  return isGrowing ? text.replace(PARTIAL_FENCE, "") : text;
}

/** A table that is too wide scrolls in a frame of its own. @param {DocumentFragment} fragment */
function framed(fragment) {
  const frame = document.createElement("div");
  frame.className = "table";
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Table");
  frame.append(fragment);
  return frame;
}

/** Loose text gets an element, so that each unit has nodes to take away. @param {DocumentFragment} fragment */
function elementsOf(fragment) {
  const isText = (/** @type {Node} */ node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim();
  if (![...fragment.childNodes].some(isText)) return [...fragment.children];
  const line = document.createElement("p");
  line.dir = "auto";
  line.append(fragment);
  return [line];
}

/**
 * An item without its list, a row without its table.
 * @param {Unit} unit
 * @param {DocumentFragment} fragment
 */
function innerOf(unit, fragment) {
  const list = fragment.firstElementChild;
  return unit.kind === "row" ? [...fragment.querySelectorAll("tbody > tr")] : [...(list?.children ?? [])];
}

/**
 * The first item of a list, or the head of a table; what follows it stays.
 * @param {Drawn} old
 * @param {DocumentFragment} fresh
 */
function replaceFirst(old, fresh) {
  const block = old.unit.kind === "head" ? old.nodes[0]?.firstElementChild : old.nodes[0];
  const fromBlock = fresh.firstElementChild;
  const [first, inPlace] = [block?.firstElementChild, fromBlock?.firstElementChild];
  if (!fromBlock || !first || !inPlace || block?.tagName !== fromBlock.tagName) return false;
  for (const { name, value } of fromBlock.attributes) block.setAttribute(name, value);
  first.replaceWith(inPlace);
  return true;
}

/** @param {Unit} unit @param {Element[]} nodes */
function containerOf(unit, nodes) {
  if (unit.kind === "item") return nodes[0] ?? null;
  if (unit.kind !== "head") return null;
  const table = nodes[0].querySelector("table");
  return table?.querySelector("tbody") ?? table?.appendChild(document.createElement("tbody")) ?? null;
}
