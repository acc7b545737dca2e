// @ts-check
/** What a person can do about a load that failed, beyond the engine's own hint. */

/**
 * @param {import("./engine_client.js").EngineFault} fault Gets the longer hint.
 * @param {boolean} hadModel A model was in use, and had to go before this happened.
 * @param {(backend: "cpu") => void} choose
 * @returns {{label: string, run: () => void} | null} A button for the alert.
 */
export function helpWithLoad(fault, hadModel, choose) {
  if (hadModel) fault.hint += " The model before it was unloaded to make room.";
  if (fault.code !== "no_adapter") return null;
  fault.hint += " The CPU works everywhere, but more slowly.";
  return { label: "Use the CPU", run: () => choose("cpu") };
}
