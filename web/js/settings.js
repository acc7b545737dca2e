// @ts-check
/** The settings dialog, the theme, and what of it is remembered on this device. */

import { DevicePanel } from "./device_panel.js";
import { formatBytes, part, recall, remember } from "./dom.js";
import { SamplingFields } from "./sampling_fields.js";

/** @typedef {import("../worker/protocol.js").ChatOptions} ChatOptions */
/** @typedef {import("../worker/protocol.js").BackendChoice} BackendChoice */

const CONTEXTS = ["auto", "2048", "4096", "8192", "max"];
const BACKENDS = ["auto", "webgpu", "cpu"];

/**
 * @param {unknown} value
 * @returns {value is BackendChoice}
 */
export function isBackend(value) {
  return typeof value === "string" && BACKENDS.includes(value);
}

/** Closes dialogs by their own buttons and by a click beside them. */
export function wireDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      const target = /** @type {Element} */ (event.target);
      if (target === dialog || target.closest("[data-close]")) dialog.close();
    });
  }
}

export function wireTheme() {
  const button = part("theme-toggle");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    // Back at what the system says: follow it again.
    const isSystem = (theme === "dark") === system.matches;
    if (isSystem) delete root.dataset.theme;
    else root.dataset.theme = theme;
    remember("theme", isSystem ? null : theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

export class Settings {
  #dialog = /** @type {HTMLDialogElement} */ (part("settings-dialog"));
  #form = /** @type {HTMLFormElement} */ (part("settings-form"));
  #fields = new SamplingFields(this.#form);
  #panel;
  /** @type {BackendChoice} */
  backend = "auto";
  /** @type {string[]} What in the page's address was not understood. */
  notes = [];
  #context = /** @type {HTMLSelectElement} */ (part("set-context"));
  #cache = /** @type {HTMLSelectElement} */ (part("set-cache"));
  #threads = /** @type {HTMLInputElement} */ (part("set-threads"));
  /** @type {import("../worker/protocol.js").ModelInfo | null} */
  #model = null;
  /** Threads that the load before asked for. */
  #loadedThreads = 0;

  /**
   * @param {object} actions
   * @param {(backend: BackendChoice) => void} actions.onBackend
   * @param {(defaults: ChatOptions) => void} actions.onDefaults What counts in every conversation changed.
   * @param {(isKept: boolean) => Promise<boolean>} actions.onKeep Conversations; whether it is done.
   * @param {boolean} actions.isKept
   * @param {() => void} actions.onReload Loads the model again, with the context now set.
   * @param {() => Promise<import("../worker/protocol.js").Report>} actions.getReport
   * @param {() => Promise<import("../worker/protocol.js").Profile>} actions.getProfile
   */
  constructor({ onBackend, onDefaults, onKeep, isKept, onReload, getReport, getProfile }) {
    this.onBackend = onBackend;
    this.onDefaults = onDefaults;
    this.#panel = new DevicePanel({ getReport, getProfile });
    this.#restore();
    part("settings-button").addEventListener("click", () => {
      this.open();
    });
    for (const id of ["context-reload", "threads-reload"]) {
      part(id).addEventListener("click", () => {
        this.#dialog.close();
        onReload();
      });
    }
    part("settings-reset").addEventListener("click", () => {
      this.#fields.value = {};
      this.#context.value = "auto";
      this.#cache.value = "f16";
      this.#threads.value = "";
      this.#keep();
    });
    this.#form.addEventListener("change", () => this.#keep());
    const keep = /** @type {HTMLInputElement} */ (part("set-keep"));
    keep.checked = isKept;
    keep.addEventListener("change", async () => {
      if (!(await onKeep(keep.checked))) keep.checked = !keep.checked;
    });
  }

  open() {
    this.#panel.close();
    this.#dialog.showModal();
  }

  /**
   * What the next load asks for.
   * @returns {{context: "auto" | "max" | number, kvDtype: "f16" | "q8_0", threads: number}}
   */
  get loadOptions() {
    const { value } = this.#context;
    const context = value === "auto" || value === "max" ? value : Number(value);
    const kvDtype = this.#cache.value === "q8_0" ? "q8_0" : "f16";
    return { context, kvDtype, threads: this.#threads.validity.valid ? Number(this.#threads.value) : 0 };
  }

  /** @param {import("../worker/protocol.js").ModelInfo} model The one now loaded. */
  showModel(model) {
    this.#model = model;
    this.#fields.showDefaults({ ...model.sampling, maxTokens: model.maxTokens });
    this.onDefaults(this.defaults);
    this.#loadedThreads = this.loadOptions.threads;
    this.#showContext();
    this.#showThreads();
  }

  get canGrowContext() {
    return !!this.#model && this.#model.nCtx < this.#model.nCtxTrained;
  }

  #showContext() {
    if (!this.#model) return;
    const { nCtx, nCtxTrained, kvDtype, kvBytesPerToken } = this.#model;
    const { context, kvDtype: wanted } = this.loadOptions;
    const asked = context === "auto" ? 4096 : context === "max" ? nCtxTrained : context;
    const next = Math.min(asked, nCtxTrained);
    const perToken = kvBytesPerToken[wanted];
    const cost = `${next.toLocaleString("en")} tokens take ${formatBytes(next * (perToken ?? kvBytesPerToken.f16 ?? 0))}`;
    const now = `now ${nCtx.toLocaleString("en")}${kvDtype === "q8_0" ? ", compact" : ""}, at most ${nCtxTrained.toLocaleString("en")}`;
    const without = perToken === undefined ? " It cannot keep them compactly." : "";
    part("context-help").textContent = `${cost} with this model (${now}).${without}`;
    part("context-reload").hidden = next === nCtx && (wanted === kvDtype || perToken === undefined);
  }

  #showThreads() {
    const isCpu = this.#model?.backend === "cpu";
    part("threads-reload").hidden = !isCpu || this.loadOptions.threads === this.#loadedThreads;
  }

  /** @param {BackendChoice} backend As if picked in the dialog. */
  choose(backend) {
    /** @type {RadioNodeList} */ (this.#form.elements.namedItem("backend")).value = backend;
    this.#keep();
  }

  /** The address may force one kind of GPU kernels (`?variant=rows`), to compare them. */
  get bootRequest() {
    const variant = new URLSearchParams(location.search).get("variant") ?? "auto";
    return { backend: this.backend, variant };
  }

  /** What counts in every conversation: the person's settings, and the model's own for the rest. */
  get defaults() {
    return { ...this.#model?.sampling, maxTokens: this.#model?.maxTokens, ...this.#fields.value };
  }

  /**
   * What the engine is given, and in words how it was made to differ from the last time.
   * @param {boolean} isVaried
   * @param {ChatOptions} own Those of the conversation alone.
   */
  optionsFor(isVaried, own) {
    const options = { ...this.#fields.value, ...own };
    if (!isVaried) return { options, variation: "" };
    const isGreedy = (options.temperature ?? this.#model?.sampling.temperature) === 0;
    if (!isGreedy && options.seed === undefined) return { options, variation: "" };
    const seed = Math.floor(Math.random() * 2 ** 32);
    const temperature = isGreedy ? 0.7 : options.temperature;
    const how = isGreedy ? "varied at temperature 0.7, as 0 would say the same" : "varied with a new seed";
    return { options: { ...options, temperature, seed }, variation: how };
  }

  #restore() {
    /** @type {Record<string, unknown>} */
    let kept = {};
    try {
      kept = JSON.parse(recall("settings") ?? "{}") ?? {};
    } catch (error) {
      console.warn("The remembered settings could not be read; using the defaults.", error);
    }
    this.#fields.value = kept;
    // The address wins over what is remembered, so that a link says what it does.
    const asked = new URLSearchParams(location.search).get("backend");
    if (asked !== null && !isBackend(asked)) {
      this.notes.push(`The address asks for the backend “${asked}”, which there is not: choose auto, webgpu or cpu.`);
    }
    if (CONTEXTS.includes(String(kept.context))) this.#context.value = String(kept.context);
    if (kept.cache === "q8_0") this.#cache.value = kept.cache;
    const threads = new URLSearchParams(location.search).get("threads") ?? kept.threads;
    if (threads) this.#threads.value = String(threads);
    this.backend = isBackend(asked) ? asked : isBackend(kept.backend) ? kept.backend : "auto";
    /** @type {RadioNodeList} */ (this.#form.elements.namedItem("backend")).value = this.backend;
  }

  #keep() {
    const radios = /** @type {RadioNodeList} */ (this.#form.elements.namedItem("backend"));
    const backend = isBackend(radios.value) ? radios.value : "auto";
    const { threads } = this.loadOptions;
    const kept = { ...this.#fields.value, backend, context: this.#context.value, cache: this.#cache.value, threads };
    remember("settings", JSON.stringify(kept));
    this.#showContext();
    this.#showThreads();
    this.onDefaults(this.defaults);
    if (backend === this.backend) return;
    this.backend = backend;
    const url = new URL(location.href);
    url.searchParams.delete("backend");
    history.replaceState(null, "", url);
    this.onBackend(backend);
  }
}
