// @ts-check
/**
 * A conversation as a tree: an edited message and a reply written again are branches beside the
 * one before. `chosen` marks the branch in view at each fork, so the path from the root is what is
 * on the page and what the model is given.
 */

/** @typedef {"stop" | "length" | "cancelled" | "context_full" | "error" | "interrupted"} Finish */

/**
 * @typedef {object} MessageNode
 * @property {string} id
 * @property {string | null} parent
 * @property {"user" | "assistant"} role
 * @property {string} text
 * @property {number} at When it last changed, in ms since 1970.
 * @property {string} [chosen] The child in view.
 * @property {Finish} [finish] Of a reply: how it ended.
 * @property {string} [outcome] Of a reply: the line of facts under it.
 * @property {string} [model] Of a reply: who wrote it.
 * @property {number} [used] Of a reply: tokens of the context that it and what came before took.
 */

/** How a reply ended that can go on. */
const CUT_SHORT = ["length", "cancelled", "interrupted", "error"];

/** @param {MessageNode} node */
export function canContinue({ role, text, finish }) {
  return role === "assistant" && text !== "" && CUT_SHORT.includes(finish ?? "");
}

/** A reply that has no text yet. @param {MessageNode} node */
export function isWaiting({ role, text, finish }) {
  return role === "assistant" && !text && !finish;
}

/** Not `crypto.randomUUID`: a page without https has none. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Tree {
  /** @type {Map<string, MessageNode>} In the order they were made. */
  #nodes = new Map();
  /** @type {Map<string | null, MessageNode[]> | null} Made when it is asked for. */
  #byParent = null;
  /** @type {string | undefined} The first message in view. */
  chosen;

  /**
   * @param {MessageNode[]} [nodes] Each after its parent.
   * @param {string} [chosen]
   */
  constructor(nodes = [], chosen) {
    this.adopt(nodes);
    this.chosen = this.#nodes.has(chosen ?? "") ? chosen : this.children(null).pop()?.id;
  }

  /** @returns {MessageNode[]} From the first message to the last one in view. */
  get path() {
    const path = [];
    let next = this.#child(null, this.chosen);
    while (next) {
      path.push(next);
      next = this.#child(next.id, next.chosen);
    }
    return path;
  }

  /**
   * What a file calls chosen need not be a child, and then a path might never end.
   * @param {string | null} parent @param {string | undefined} id
   */
  #child(parent, id) {
    const node = this.#nodes.get(id ?? "");
    return node?.parent === parent ? node : undefined;
  }

  get last() {
    return this.path.at(-1) ?? null;
  }

  /** @param {string} id */
  get(id) {
    return this.#nodes.get(id) ?? null;
  }

  /**
   * @param {MessageNode | null} parent
   * @param {MessageNode["role"]} role
   * @param {string} text
   */
  add(parent, role, text) {
    /** @type {MessageNode} */
    const node = { id: newId(), parent: parent?.id ?? null, role, text, at: Date.now() };
    this.#nodes.set(node.id, node);
    this.#byParent = null;
    this.choose(node.id);
    return node;
  }

  /** @param {string} id The version to have in view. */
  choose(id) {
    const node = /** @type {MessageNode} */ (this.#nodes.get(id));
    const parent = node.parent === null ? null : this.#nodes.get(node.parent);
    if (parent) parent.chosen = id;
    else this.chosen = id;
  }

  /**
   * Takes a message and what follows it out; the version beside it comes into view.
   * @param {string} id
   */
  remove(id) {
    const node = this.#nodes.get(id);
    if (!node) return;
    for (const child of this.children(id)) this.remove(child.id);
    this.#nodes.delete(id);
    this.#byParent = null;
    const beside = this.children(node.parent).pop();
    const parent = node.parent === null ? null : this.#nodes.get(node.parent);
    if (beside) this.choose(beside.id);
    else if (parent) delete parent.chosen;
    else this.chosen = undefined;
  }

  /** @param {string | null} parent @returns {MessageNode[]} Its children, the oldest first. */
  children(parent) {
    if (!this.#byParent) {
      this.#byParent = new Map();
      for (const node of this.#nodes.values()) {
        const beside = this.#byParent.get(node.parent);
        if (beside) beside.push(node);
        else this.#byParent.set(node.parent, [node]);
      }
    }
    return [...(this.#byParent.get(parent) ?? [])];
  }

  /**
   * Takes in what another tab or a file has: messages that are missing here, and newer states of
   * those that are not. What is in view here stays in view.
   * @param {MessageNode[]} nodes Each after its parent.
   */
  adopt(nodes) {
    this.#byParent = null;
    for (const node of nodes) {
      const own = this.#nodes.get(node.id);
      if (!own) this.#nodes.set(node.id, { ...node });
      else if (node.at > own.at) Object.assign(own, node, { parent: own.parent, chosen: own.chosen ?? node.chosen });
      else own.chosen ??= node.chosen;
    }
    this.chosen ??= this.children(null).pop()?.id;
  }

  /** @returns {MessageNode[]} Copies, each after its parent; a reply not begun is left out. */
  toList() {
    const nodes = [...this.#nodes.values()].filter((node) => !isWaiting(node));
    const kept = new Set(nodes.map(({ id }) => id));
    return nodes.map((node) => {
      const { chosen, ...rest } = node;
      return chosen && kept.has(chosen) ? { ...rest, chosen } : rest;
    });
  }
}
