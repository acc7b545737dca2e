// @ts-check
/** A conversation as the page holds it: its row and its tree; and which one a tab showed last. */

import { recall, remember } from "./dom.js";
import { newId, Tree } from "./tree.js";

/** @typedef {import("./threads_store.js").Thread} Thread */
/** @typedef {Omit<Thread, "nodes" | "chosen"> & {tree: Tree}} OpenThread */

const TITLE_CHARS = 60;
const UNTITLED = "New conversation";

/** @returns {OpenThread} One without messages. */
export function fresh() {
  const now = Date.now();
  const row = { id: newId(), title: UNTITLED, isNamed: false, createdAt: now, updatedAt: now, version: 0 };
  return { ...row, system: "", options: {}, tree: new Tree() };
}

/** @param {Thread} thread @returns {OpenThread} */
export function opened({ nodes, chosen, ...rest }) {
  return { ...rest, tree: new Tree(nodes, chosen) };
}

/** @param {OpenThread} thread @returns {Thread} */
export function record({ tree, ...rest }) {
  return { ...rest, chosen: tree.chosen, nodes: tree.toList() };
}

/** @param {string} text The first message. */
export function titleFrom(text) {
  const line = text.trim().split("\n", 1)[0].replaceAll(/\s+/g, " ");
  if (line.length <= TITLE_CHARS) return line || UNTITLED;
  return `${line.slice(0, TITLE_CHARS).replace(/\s+\S*$/, "")}…`;
}

/** Which conversation this tab showed last, or any tab. */
export function lastSeen() {
  try {
    return sessionStorage.getItem("rushlight.thread") ?? recall("thread");
  } catch (error) {
    console.info("Storage is blocked.", error);
    return null;
  }
}

/** @param {string} id */
export function markSeen(id) {
  remember("thread", id);
  try {
    sessionStorage.setItem("rushlight.thread", id);
  } catch (error) {
    console.info("Storage is blocked.", error);
  }
}

/**
 * @param {Thread | null} held What is kept here wins over what a file says of it.
 * @param {Thread} thread Deleted before, or from a file.
 * @returns {Thread}
 */
export function joined(held, thread) {
  const tree = new Tree(held?.nodes ?? thread.nodes, held?.chosen ?? thread.chosen);
  // Of a message that both have, the file only says which follow-up is in view if there was none.
  if (held) tree.adopt(thread.nodes.map((node) => ({ ...node, ...tree.get(node.id), chosen: node.chosen })));
  return { ...(held ?? { ...thread, version: 0 }), chosen: tree.chosen, nodes: tree.toList() };
}
