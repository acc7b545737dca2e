// @ts-check
/** The stepped progress bar above the message field. */

import { formatBytes, part } from "./dom.js";

/** @typedef {import("../worker/protocol.js").Progress} Progress */

/** Steps in order, with the share of the bar that each takes: about its share of the time. */
const STEPS = /** @type {const} */ ([
  ["runtime", 24],
  ["packages", 8],
  ["engine", 8],
  ["header", 5],
  ["plan", 5],
  ["weights", 40],
  ["compile", 10],
  ["store", 2],
]);
/** How the engine begins its verdict on the memory that a model takes. */
const FITS = "It fits";
const TOTAL_SHARE = STEPS.reduce((sum, [, share]) => sum + share, 0);

export class ProgressView {
  #card = part("progress");
  #bar = part("progress-bar");
  #label = part("progress-label");
  #detail = part("progress-detail");
  #fit = part("progress-fit");
  /** @type {HTMLElement[]} */
  #segments = [];
  /** @type {{time: number, bytes: number} | null} When and where the download began. */
  #start = null;

  /** @param {() => void} onCancel */
  constructor(onCancel) {
    part("load-cancel").addEventListener("click", onCancel);
    for (const [step, share] of STEPS) {
      const segment = document.createElement("span");
      segment.className = "segment";
      segment.dataset.step = step;
      segment.style.flex = `${share} 1 0`;
      segment.append(document.createElement("i"));
      this.#segments.push(segment);
    }
    this.#bar.replaceChildren(...this.#segments);
  }

  /**
   * @param {"runtime" | "header"} from The step that comes first.
   * @param {string} label
   */
  begin(from, label) {
    this.#fit.hidden = true;
    this.#start = null;
    this.show({ step: from, label, done: 0, total: 0 });
    this.#card.hidden = false;
  }

  end() {
    this.#card.hidden = true;
  }

  /** @param {Progress} progress */
  show({ step, label, done, total }) {
    if (step === "plan" && label.startsWith(FITS)) {
      this.#fit.textContent = label; // stays while the weights come: the numbers are for reading
      this.#fit.hidden = false;
    }
    const at = STEPS.findIndex(([name]) => name === step);
    const now = at < 0 ? STEPS.length : at; // "ready" lies behind the last one
    const part = total > 0 ? Math.min(1, done / total) : 0;
    let share = 0;
    this.#segments.forEach((segment, i) => {
      const fill = i < now ? 1 : i === now ? part : 0;
      segment.dataset.state = i < now ? "done" : i > now ? "next" : total > 0 ? "now" : "unknown";
      /** @type {HTMLElement} */ (segment.firstElementChild).style.transform =
        segment.dataset.state === "unknown" ? "" : `scaleX(${fill})`;
      share += fill * STEPS[i][1];
    });
    // The worker names each tensor as it comes; for a person that flickers and says nothing.
    const text = step === "weights" ? "Reading the weights" : label;
    this.#label.textContent = text;
    this.#detail.textContent = step === "weights" && total > 0 ? this.#rate(done, total) : "";
    this.#bar.setAttribute("aria-valuenow", String(Math.round((100 * share) / TOTAL_SHARE)));
    this.#bar.setAttribute("aria-valuetext", `${text} ${this.#detail.textContent}`.trim());
  }

  /**
   * @param {number} done
   * @param {number} total
   */
  #rate(done, total) {
    const now = performance.now();
    this.#start ??= { time: now, bytes: done };
    const seconds = (now - this.#start.time) / 1000;
    const [amount, unit] = formatBytes(done).split(" ");
    const whole = formatBytes(total);
    const text = whole.endsWith(` ${unit}`) ? `${amount} of ${whole}` : `${amount} ${unit} of ${whole}`;
    if (seconds < 1.5) return text;
    const speed = (done - this.#start.bytes) / seconds;
    const left = speed > 0 ? Math.ceil((total - done) / speed) : Infinity;
    if (left < 5 || left > 5400) return text;
    return `${text}, ${left < 90 ? `${left} s` : `${Math.round(left / 60)} min`} left`;
  }
}
