// @ts-check
/** The sampling settings as form fields: what they accept, and what counts where they are empty. */

/** @typedef {import("../worker/protocol.js").ChatOptions} ChatOptions */
/** @typedef {import("../worker/protocol.js").ModelInfo} ModelInfo */

/** Each setting with its smallest and largest value; the fields in index.html say the same. */
export const OPTION_LIMITS = /** @type {const} */ ([
  ["temperature", [0, 2]],
  ["topK", [0, 1000]],
  ["topP", [0.01, 1]],
  ["minP", [0, 1]],
  ["repetitionPenalty", [0.5, 2]],
  ["seed", [0, 2 ** 32 - 1]],
  ["maxTokens", [1, 32768]],
]);

/** The fields of one form that are named as the settings, after a prefix. */
export class SamplingFields {
  /**
   * @param {HTMLFormElement} form
   * @param {string} [prefix]
   */
  constructor(form, prefix = "") {
    this.inputs = OPTION_LIMITS.map(([name]) => {
      const input = /** @type {HTMLInputElement} */ (form.elements.namedItem(prefix + name));
      return /** @type {const} */ ([name, input]);
    });
  }

  /** @returns {ChatOptions} Only what the person set and the field accepts. */
  get value() {
    /** @type {ChatOptions} */
    const options = {};
    for (const [name, input] of this.inputs) {
      if (input.value !== "" && input.validity.valid) options[name] = input.valueAsNumber;
    }
    return options;
  }

  /** @param {Record<string, unknown>} options */
  set value(options) {
    for (const [name, input] of this.inputs) {
      const value = options[name];
      input.value = typeof value === "number" ? String(value) : "";
    }
  }

  /** @param {ChatOptions} defaults Shown in the empty fields. */
  showDefaults(defaults) {
    for (const [name, input] of this.inputs) {
      const value = defaults[name];
      const words = name === "seed" ? "random" : "automatic";
      input.placeholder = value === undefined ? words : String(Number(value.toPrecision(4)));
    }
  }
}
