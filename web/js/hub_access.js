// @ts-check
/** The hub as this page knows it: its address, and the token that a person gave for it. */

import { HUB, hubFile } from "../worker/hub.js";
import { recall, remember } from "./dom.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */

const KEY = "hubToken";
let hub = HUB;
/** In memory until the page closes, unless a person asked to keep it. */
let token = recall(KEY) ?? "";

/** @param {string} address Another hub, which the site's catalogue names. */
export function useHub(address) {
  hub = new URL(address).origin;
}

export const hubAddress = () => hub;
export const hubHost = () => new URL(hub).host;
export const hubToken = () => token;
export const isTokenKept = () => recall(KEY) !== null;

/** @param {string} given @param {boolean} isKept Beyond this visit. */
export function setToken(given, isKept) {
  token = given.trim();
  remember(KEY, isKept && token ? token : null);
}

/** @param {ModelSource | null} source */
export function isOnHub(source) {
  return source?.kind === "url" && hubFile(source.url, hub) !== null;
}

/**
 * A source as the worker gets it: one of the hub's with the hub's address, and the token if there is one.
 * No other host is ever shown it.
 * @param {ModelSource} source
 * @returns {ModelSource}
 */
export function withHub(source) {
  if (source.kind !== "url" || !isOnHub(source)) return source;
  return { ...source, hub, ...(token ? { token } : {}) };
}
