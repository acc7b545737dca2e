// @ts-check
/** What the model runs on: facts in words, the whole report for a bug, and a profile. */

import { part } from "./dom.js";

/** @typedef {import("../worker/protocol.js").Report} Report */
/** @typedef {import("../worker/protocol.js").CpuReport} CpuReport */

export class DevicePanel {
  #details = /** @type {HTMLDetailsElement} */ (part("report-details"));

  /**
   * @param {object} actions
   * @param {() => Promise<Report>} actions.getReport
   * @param {() => Promise<import("../worker/protocol.js").Profile>} actions.getProfile
   */
  constructor({ getReport, getProfile }) {
    this.getReport = getReport;
    this.getProfile = getProfile;
    this.#details.addEventListener("toggle", () => void this.#showReport());
    part("profile-button").addEventListener("click", () => void this.#showProfile());
  }

  close() {
    this.#details.open = false;
  }

  async #showProfile() {
    const button = /** @type {HTMLButtonElement} */ (part("profile-button"));
    const text = part("profile-text");
    button.disabled = true;
    text.hidden = false;
    text.textContent = "Writing a short reply…";
    try {
      text.textContent = (await this.getProfile()).text;
    } catch (error) {
      text.textContent = `No profile: ${error instanceof Error ? error.message : String(error)}`;
    }
    button.disabled = false;
  }

  async #showReport() {
    if (!this.#details.open) return;
    const text = part("report-text");
    text.textContent = "Asking the engine…";
    try {
      const report = await this.getReport();
      part("device-facts").replaceChildren(...factItems(factsOf(report)));
      text.textContent = JSON.stringify(report, null, 2);
    } catch (error) {
      text.textContent = `No report: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
}

/**
 * @param {Report} report
 * @returns {[name: string, value: string][]}
 */
function factsOf({ backend, adapter, details }) {
  const cpu = /** @type {CpuReport | undefined} */ (details.cpu);
  if (backend === "webgpu") return [["Runs on", `WebGPU, ${adapter}`]];
  if (!cpu) return [["Runs on", adapter ? `CPU, ${adapter}` : "CPU"]];
  const threads = cpu.threads === 1 ? "one thread" : `${cpu.threads} threads`;
  const exactness = cpu.variant === "exact" ? "exact" : "8-bit activations (int8)";
  return [
    ["Runs on", `CPU, ${threads}`],
    ["Kernels", `WebAssembly ${cpu.build === "relaxed" ? "relaxed SIMD" : "SIMD"}, ${exactness}`],
    ["Accelerated", cpu.accelerated.join(", ") || "nothing"],
    ["By numpy", cpu.reference.join(", ") || "nothing"],
  ];
}

/** @param {[name: string, value: string][]} facts */
function factItems(facts) {
  return facts.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    term.textContent = name;
    const description = document.createElement("dd");
    description.textContent = value;
    return [term, description];
  });
}
