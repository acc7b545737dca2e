// @ts-check
/** The engine's thread: answers the page's calls (see protocol.js), one load or chat at a time. */

import * as Comlink from "../vendor/comlink.mjs";
import { startRuntime } from "./boot.js";
import { Failure } from "./failure.js";
import { PROTOCOL_VERSION, answer, asFailure } from "./protocol.js";
import { reportOf } from "./report.js";
import { reportRequests } from "./request_log.js";
import { ModelParts } from "./parts.js";
import { deleteModel, listModels } from "./storage/model_store.js";

/** @typedef {import("./protocol.js").EngineApi} EngineApi */
/** @typedef {import("./protocol.js").ModelInfo} ModelInfo */
/** @typedef {import("./protocol.js").Progress} Progress */
/** @typedef {import("./protocol.js").ReplyStats} ReplyStats */

const PROGRESS_MS = 50;

/** @type {import("./boot.js").Runtime | null} */
let runtime = null;
/** @type {"" | "boot" | "load" | "chat" | "profile"} */
let running = "";
/** @type {ModelParts | null} */
let source = null;
let isStopping = false;

function requireRuntime() {
  if (runtime) return runtime;
  throw new Failure("bad_request", "The engine is not started.", "Call boot first.");
}

/**
 * Runs one exclusive job; a callback that came with it is released afterwards.
 * @template T
 * @param {typeof running} name
 * @param {object | null} callback
 * @param {() => Promise<T>} job
 */
function exclusively(name, callback, job) {
  return answer(async () => {
    try {
      if (running) throw new Failure("busy", `The engine is busy (${running}).`, "Stop it first.");
      running = name;
      isStopping = false;
      try {
        return await job();
      } finally {
        running = "";
      }
    } finally {
      /** @type {any} */ (callback)?.[Comlink.releaseProxy]?.();
    }
  });
}

/**
 * Sends a step's first and last event, and at most one in PROGRESS_MS in between.
 * @param {import("./protocol.js").OnProgress} onProgress
 * @returns {(progress: Progress) => void}
 */
function throttled(onProgress) {
  let step = "";
  let sent = 0;
  return (progress) => {
    const isEdge = progress.step !== step || progress.done === progress.total;
    if (!isEdge && performance.now() - sent < PROGRESS_MS) return;
    step = progress.step;
    sent = performance.now();
    onProgress(progress);
  };
}

/**
 * The value of an envelope that Python wrote.
 * @param {string} json
 */
function opened(json) {
  const envelope = JSON.parse(json);
  if (envelope.ok) return envelope.value;
  const { code, message, hint, fit } = envelope.error;
  throw Object.assign(new Failure(code, message, hint), { fit });
}

const backendInUse = () => (requireRuntime().gpu ? "webgpu" : "cpu");

/**
 * @param {import("./protocol.js").ModelSource} origin
 * @param {import("./protocol.js").LoadOptions} options
 * @param {import("./protocol.js").OnProgress} onProgress
 * @returns {Promise<{info: ModelInfo, note: string}>}
 */
async function load(origin, options, onProgress) {
  const report = throttled(onProgress);
  const { engine } = requireRuntime();
  report({ step: "header", label: "Opening the model", done: 0, total: 0 });
  const parts = (source = new ModelParts(origin, engine.new_hash)); // stop() can end its opening
  const first = await parts.open();
  const json = await engine.load_model(
    first,
    first.name,
    backendInUse(),
    String(options.context ?? "auto"),
    options.threads ?? 0,
    (step, label, done, total) => {
      report({ step: /** @type {Progress["step"]} */ (step), label, done, total });
    },
    options.isForced ?? false,
    options.kvDtype ?? "f16",
  );
  const info = opened(json);
  await parts.complete((done, total) => {
    report({ step: "store", label: "Checking the stored file", done, total });
  });
  return { info, note: parts.note };
}

/** @type {EngineApi} */
const api = {
  boot: ({ backend, variant }, onProgress) =>
    exclusively("boot", onProgress, async () => {
      if (runtime) throw new Failure("bad_request", "The engine is started already.");
      runtime = await startRuntime(backend, onProgress, variant);
      const { version, gpu, notes } = runtime;
      return {
        version,
        protocol: PROTOCOL_VERSION,
        backend: backendInUse(),
        adapter: gpu?.adapterName ?? "",
        notes: [...notes, ...(gpu?.notes ?? [])],
      };
    }),

  loadModel: (origin, options, onProgress) =>
    exclusively("load", onProgress, async () => {
      const { engine, gpu, notes } = requireRuntime();
      try {
        if (gpu?.lost != null) {
          engine.unload(); // its buffers went with the device
          await gpu.reopen();
        }
        const { info, note } = await load(origin, options, onProgress);
        if (isStopping) {
          engine.unload();
          throw new Failure("cancelled", "The load was stopped.");
        }
        return { ...info, notes: [...notes, ...info.notes, note].filter(Boolean) };
      } catch (thrown) {
        throw Object.assign(asFailure(thrown), { isModelKept: engine.is_loaded() });
      } finally {
        source?.close();
        source = null;
      }
    }),

  chat: ({ messages, options }, onToken) =>
    exclusively("chat", onToken, async () => {
      const { engine } = requireRuntime();
      /** @type {(piece: string) => void} Returns nothing: Python would get the promise. */
      const sendPiece = (piece) => void onToken(piece);
      const json = JSON.stringify(messages);
      return opened(await engine.chat(json, JSON.stringify(options), sendPiece));
    }),

  stop: () =>
    answer(() => {
      isStopping = true;
      source?.abort();
      if (running === "chat") requireRuntime().engine.stop();
      return null;
    }),

  reset: () =>
    answer(() => {
      if (running) throw new Failure("busy", `The engine is busy (${running}).`, "Stop it first.");
      requireRuntime().engine.reset();
      return null;
    }),

  unload: () =>
    answer(() => {
      if (running) throw new Failure("busy", `The engine is busy (${running}).`, "Stop it first.");
      requireRuntime().engine.unload();
      return null;
    }),

  storage: () =>
    answer(async () => {
      const { usage = 0, quota = 0 } = await navigator.storage.estimate();
      return { models: await listModels(), usedBytes: usage, quotaBytes: quota };
    }),

  deleteStored: (keys) =>
    answer(async () => {
      for (const key of keys) await deleteModel(key);
      return null;
    }),

  profile: () =>
    exclusively("profile", null, async () => opened(await requireRuntime().engine.profile())),

  report: () => answer(() => reportOf(requireRuntime())),
};

reportRequests();
Comlink.expose(api);
