// @ts-check
/** What a person can do about a load or a reply that failed, beyond the engine's own hint. */

import { isOnHub } from "./hub_access.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */
/** @typedef {{label: string, run: () => void}} Remedy A button for the alert. */
/**
 * @typedef {object} Cures
 * @property {(backend: "cpu") => void} choose
 * @property {(options: import("../worker/protocol.js").LoadOptions) => void} shrink Loads it with a context so small.
 * @property {() => void} force Loads it although a trial found no room.
 * @property {() => void} askToken
 */

/** Failures of the GPU alone: the CPU does not have them. */
const OF_THE_GPU = ["no_adapter", "device_lost", "device", "shader_compile", "out_of_device_memory"];

/**
 * @param {import("./engine_client.js").EngineFault} fault Gets the longer hint.
 * @param {(backend: "cpu") => void} choose
 * @returns {Remedy | null}
 */
export function helpWithDevice(fault, choose) {
  if (!OF_THE_GPU.includes(fault.code)) return null;
  if (!/\bCPU\b/.test(fault.hint)) fault.hint += " The CPU works everywhere, but more slowly.";
  return { label: "Use the CPU", run: () => choose("cpu") };
}

/**
 * @param {import("./engine_client.js").EngineFault} fault Gets the longer hint.
 * @param {boolean} hadModel A model was in use, and had to go before this happened.
 * @param {ModelSource | null} source That was refused.
 * @param {Cures} cures
 * @returns {{remedy: Remedy | null, again: Remedy | null}} `again` in place of "Try again".
 */
export function helpWithLoad(fault, hadModel, source, cures) {
  if (hadModel) fault.hint += " The model before it was unloaded to make room.";
  if (fault.code === "forbidden" && isOnHub(source)) {
    fault.hint = "Accept the model's terms on its page at the hub, then give an access token here.";
    return { remedy: { label: "Give a token", run: cures.askToken }, again: null };
  }
  if (!fault.fit) return { remedy: helpWithDevice(fault, cures.choose), again: null };
  const { context, kvDtype, canForce } = fault.fit;
  const label = `Use ${context.toLocaleString("en")} tokens${kvDtype === "q8_0" ? ", compact" : ""}`;
  return {
    remedy: context ? { label, run: () => cures.shrink({ context, kvDtype }) } : null,
    again: canForce ? { label: "Load anyway", run: cures.force } : null,
  };
}
