// @ts-check
/** The worker as the page sees it: typed calls that throw EngineFault, and a restart. */

import * as Comlink from "../vendor/comlink.mjs";
import { PROTOCOL_VERSION } from "../worker/protocol.js";
import { REQUEST_CHANNEL } from "./network_log.js";

/** @typedef {import("../worker/protocol.js").EngineApi} EngineApi */
/** @typedef {import("../worker/protocol.js").EngineFailure} EngineFailure */

/** @typedef {{worker: Worker, api: EngineApi, end: (fault: EngineFault) => void, ended: Promise<never>}} Engine */

/** A failure the worker answered with, or the worker's own end. */
export class EngineFault extends Error {
  /** @param {EngineFailure} failure */
  constructor({ code, message, hint, fit, isModelKept = false }) {
    super(message);
    this.name = "EngineFault";
    this.code = code;
    this.hint = hint;
    /** Of "will_not_fit". */
    this.fit = fit;
    /** A load failed, but the model before it is still there. */
    this.isModelKept = isModelKept;
  }
}

/**
 * Anything thrown, as an EngineFault.
 * @param {unknown} thrown
 */
export function asFault(thrown) {
  if (thrown instanceof EngineFault) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new EngineFault({ code: "page_failed", message, hint: "Reload the page and try again." });
}

/** One worker at a time. After `close` or a crash the next `boot` starts a new one. */
export class EngineClient {
  /** @type {Engine | null} */
  #engine = null;
  #isBooted = false;

  get isBooted() {
    return this.#isBooted;
  }

  /**
   * @param {import("../worker/protocol.js").BootRequest} request
   * @param {import("../worker/protocol.js").OnProgress} onProgress
   */
  async boot(request, onProgress) {
    const { api } = this.#engine ?? this.#start();
    const info = await this.#ask(api.boot(request, Comlink.proxy(onProgress))).catch((thrown) => {
      // A half-started engine is not to be started again: the next boot gets a fresh worker.
      this.#end(asFault(thrown));
      throw thrown;
    });
    if (info.protocol !== PROTOCOL_VERSION) {
      throw new EngineFault({
        code: "version_mismatch",
        message: `The page speaks protocol ${PROTOCOL_VERSION}, the engine ${info.protocol}.`,
        hint: "Reload the page without the cache (Shift + Reload).",
      });
    }
    this.#isBooted = true;
    return info;
  }

  /**
   * @param {import("../worker/protocol.js").ModelSource} source
   * @param {import("../worker/protocol.js").LoadOptions} options
   * @param {import("../worker/protocol.js").OnProgress} onProgress
   */
  loadModel(source, options, onProgress) {
    return this.#ask(this.#api().loadModel(source, options, Comlink.proxy(onProgress)));
  }

  /**
   * @param {import("../worker/protocol.js").ChatRequest} request
   * @param {import("../worker/protocol.js").OnToken} onToken
   */
  chat(request, onToken) {
    return this.#ask(this.#api().chat(request, Comlink.proxy(onToken)));
  }

  stop() {
    return this.#ask(this.#api().stop());
  }

  /** Ends a load; the engine's start cannot be ended but with its worker. */
  cancelLoad() {
    if (!this.#isBooted) this.close();
    else this.stop().catch((error) => console.info("Nothing to stop.", error));
  }

  reset() {
    return this.#ask(this.#api().reset());
  }

  storage() {
    return this.#ask(this.#api().storage());
  }

  /** @param {string[]} keys */
  deleteStored(keys) {
    return this.#ask(this.#api().deleteStored(keys));
  }

  report() {
    return this.#ask(this.#api().report());
  }

  profile() {
    return this.#ask(this.#api().profile());
  }

  /** Ends the worker at once; every call still waiting throws "worker_closed". */
  close() {
    this.#end({ code: "worker_closed", message: "The engine was stopped.", hint: "" });
  }

  #api() {
    if (!this.#engine) {
      throw new EngineFault({
        code: "worker_closed",
        message: "The engine is not running.",
        hint: "Load a model to start it again.",
      });
    }
    return this.#engine.api;
  }

  #start() {
    const script = new URL("../worker/worker.js", import.meta.url);
    const worker = new Worker(script, { type: "module", name: REQUEST_CHANNEL });
    /** @type {(fault: EngineFault) => void} */
    let end = () => {};
    /** @type {Promise<never>} */
    const ended = new Promise((_, reject) => {
      end = reject;
    });
    // Every call races with `ended`; with no call waiting its rejection has no other listener.
    ended.catch(() => {});
    worker.addEventListener("error", (event) => {
      this.#end({
        code: "worker_failed",
        message: event.message ? `The engine stopped: ${event.message}` : "The engine did not start.",
        hint: "Try again; if it happens again, reload the page.",
      });
    });
    this.#engine = { worker, api: Comlink.wrap(worker), end, ended };
    return this.#engine;
  }

  /** @param {EngineFailure} failure */
  #end(failure) {
    const engine = this.#engine;
    this.#engine = null;
    this.#isBooted = false;
    engine?.worker.terminate();
    engine?.end(new EngineFault(failure));
  }

  /**
   * @template T
   * @param {Promise<import("../worker/protocol.js").Envelope<T>>} call
   * @returns {Promise<T>}
   */
  async #ask(call) {
    const ended = /** @type {Engine} */ (this.#engine).ended;
    const envelope = await Promise.race([call, ended]);
    if (!envelope.ok) throw new EngineFault(envelope.error);
    return envelope.value;
  }
}
