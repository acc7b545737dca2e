// @ts-check
/** What a person can do about a load or a reply that failed, beyond the engine's own hint. */

/** Failures of the GPU alone: the CPU does not have them. */
const OF_THE_GPU = ["no_adapter", "device_lost", "device", "shader_compile", "out_of_device_memory"];

/**
 * @param {import("./engine_client.js").EngineFault} fault Gets the longer hint.
 * @param {(backend: "cpu") => void} choose
 * @returns {{label: string, run: () => void} | null} A button for the alert.
 */
export function helpWithDevice(fault, choose) {
  if (!OF_THE_GPU.includes(fault.code)) return null;
  if (!/\bCPU\b/.test(fault.hint)) fault.hint += " The CPU works everywhere, but more slowly.";
  return { label: "Use the CPU", run: () => choose("cpu") };
}

/**
 * @param {import("./engine_client.js").EngineFault} fault Gets the longer hint.
 * @param {boolean} hadModel A model was in use, and had to go before this happened.
 * @param {(backend: "cpu") => void} choose
 */
export function helpWithLoad(fault, hadModel, choose) {
  if (hadModel) fault.hint += " The model before it was unloaded to make room.";
  return helpWithDevice(fault, choose);
}
