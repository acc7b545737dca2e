// @ts-check
/**
 * What the page and the worker say to each other: the one place both import from.
 *
 * The worker does `Comlink.expose(/** @type {EngineApi} *\/ (api))`; the page does
 * `Comlink.wrap(new Worker("worker/worker.js", {type: "module"}))`.
 *
 * Every method answers with an Envelope and never rejects: Comlink would carry only an Error's
 * message over the thread boundary, and the page also needs the code and the next step. A
 * rejection therefore always means that the worker itself is broken, and the page restarts it.
 * `answer(fn)` makes the envelope; the worker wraps each method in it.
 *
 * Callbacks (`onProgress`, `onToken`) arrive in the worker as Comlink proxies: calling one returns
 * a promise that the worker need not await. The worker releases them with
 * `callback[Comlink.releaseProxy]()` once the call that brought them is over. Messages keep their
 * order, so the last `onToken` reaches the page before the answer of `chat` does.
 *
 * One load or one chat at a time: a second one while the first runs answers `busy`. `stop` and
 * `report` are allowed at any time.
 */

/** Raised when either side changes a message in a way the other cannot read. */
export const PROTOCOL_VERSION = 3;

/** @typedef {"auto" | "webgpu" | "cpu"} BackendChoice What a person asks for. */
/** @typedef {"webgpu" | "cpu"} Backend What is in use. */

/**
 * The steps in the order they happen. "weights" counts bytes; the other steps count items, or
 * have `total` 0 when their length is not known (the page then shows a moving bar).
 * boot:      runtime (Pyodide) -> packages (numpy, ...) -> engine (our wheel, the adapter)
 * loadModel: header (metadata, tokenizer) -> plan (graph, buffers) -> weights -> compile -> store -> ready
 * @typedef {"runtime" | "packages" | "engine" | "header" | "plan" | "weights" | "compile" | "store" | "ready"} Step
 */

/**
 * @typedef {object} Progress
 * @property {Step} step
 * @property {string} label One short line for a person, e.g. "Reading the weights".
 * @property {number} done
 * @property {number} total 0 = not known.
 */
/** @typedef {(progress: Progress) => void} OnProgress */

/**
 * An error as both sides see it.
 * @typedef {object} EngineFailure
 * @property {string} code Stable, snake_case, from rushlight.errors, or one of the worker's own:
 *   "busy", "no_model", "worker_failed" (anything unforeseen), "bad_request".
 * @property {string} message What went wrong, naming the value.
 * @property {string} hint The next step for a person; "" if there is none.
 * @property {{context: number, kvDtype?: KvDtype, canForce: boolean}} [fit] Of "will_not_fit": the tokens
 *   of context (0: it does not) and the cache with which the model fits, and whether a load all the
 *   same may work (isForced).
 * @property {boolean} [isModelKept] Of loadModel: the model before it is still there to chat with.
 */

/**
 * @template T
 * @typedef {{ok: true, value: T} | {ok: false, error: EngineFailure}} Envelope
 */

/**
 * @typedef {object} BootRequest
 * @property {BackendChoice} backend
 * @property {string} [variant] Forces one kind of kernels; missing or "auto": on the GPU tested and
 *   timed, on the CPU "int8" ("exact" is the other).
 */

/**
 * @typedef {object} BootInfo
 * @property {string} version The engine's version.
 * @property {number} protocol PROTOCOL_VERSION as the worker has it.
 * @property {Backend} backend
 * @property {string} adapter E.g. "google swiftshader"; "" on the CPU.
 * @property {string[]} notes Visible fall-backs so far, e.g. "No GPU adapter: running on the CPU."
 */

/**
 * @typedef {{kind: "url", url: string, name?: string, title?: string, nBytes?: number,
 *   sha256?: string, hub?: string, token?: string}
 *   | {kind: "file", file: Blob, name: string, others?: {file: Blob, name: string}[]}} ModelSource
 *   `url` is absolute, or relative to the page (the page makes it absolute before it sends it).
 *   `title` (what people call it), `nBytes` and `sha256` where they are known. `hub` is the hub's
 *   address if the file lies there: the worker asks it for the commit, and shows it the token.
 *   `others` are further files of a split model, in any order; `file` is its first.
 */

/**
 * @typedef {object} StorageInfo
 * @property {import("./storage/model_store.js").StoredModel[]} models The last used first.
 * @property {number} usedBytes By everything this site keeps.
 * @property {number} quotaBytes What the browser grants it.
 */

/** @typedef {"f32" | "f16" | "q8_0"} KvDtype */

/**
 * @typedef {object} LoadOptions
 * @property {"auto" | "max" | number} [context] Tokens of context, at most what the model was
 *   trained for; missing or "auto": 4096.
 * @property {KvDtype} [kvDtype] How the cache keeps values, where the model can have it so; missing: f16.
 * @property {boolean} [isForced] Load although a trial allocation found no room.
 * @property {number} [threads] Of the CPU kernels; missing or 0: as many as suit this machine.
 */

/**
 * @typedef {object} ModelInfo
 * @property {string} name general.name, or the file's name without ".gguf".
 * @property {string} architecture
 * @property {number} nBytes Size of the file(s).
 * @property {number} nParams
 * @property {number} nCtx The context this session was given (tokens).
 * @property {number} nCtxTrained The largest context of this model.
 * @property {KvDtype} kvDtype How the cache keeps values.
 * @property {Partial<Record<KvDtype, number>>} kvBytesPerToken Memory that each token of context takes, in
 *   each cache that the model can have.
 * @property {string} license general.license, or "".
 * @property {string} licenseLink general.license.link, or "".
 * @property {string} quantisation The mixture of storage types by name, e.g. "Q4_K_M".
 * @property {boolean} hasChatTemplate False: conversations are written as a plain transcript.
 * @property {Required<Pick<ChatOptions, "temperature" | "topK" | "topP" | "minP"
 *   | "repetitionPenalty">>} sampling What counts where ChatOptions says nothing: from the file's
 *   general.sampling, or else the engine's.
 * @property {number} maxTokens The same for the length of a reply.
 * @property {Backend} backend
 * @property {string} adapter
 * @property {string[]} notes All visible fall-backs, those of boot included.
 */

/** @typedef {{role: "system" | "user" | "assistant", content: string}} Message */

/**
 * A missing (undefined) option means the engine's own default for this model (ModelInfo.sampling):
 * greedy for a plain transcript; with a chat template what the file asks for, or else
 * SamplingParams' defaults.
 * @typedef {object} ChatOptions
 * @property {number} [temperature] 0 = greedy.
 * @property {number} [topK] 0 = off.
 * @property {number} [topP] 1 = off.
 * @property {number} [minP] 0 = off.
 * @property {number} [repetitionPenalty] 1 = off.
 * @property {number} [presencePenalty] 0 = off.
 * @property {number} [frequencyPenalty] 0 = off.
 * @property {number} [seed]
 * @property {Record<number, number>} [logitBias] Added to the logit of a token id, -100 to 100 each.
 * @property {number} [maxTokens]
 */

/**
 * The whole conversation goes over each time; the session reuses the prefix its KV cache holds.
 * `messages` ends with a user message, or with an assistant message that was cut short: the reply then
 * goes on where it ends.
 * @typedef {object} ChatRequest
 * @property {Message[]} messages
 * @property {ChatOptions} options
 */

/** @typedef {(piece: string) => void} OnToken The next piece of text, whole code points only. */

/**
 * @typedef {object} ReplyStats
 * @property {"stop" | "length" | "cancelled" | "context_full"} finishReason
 * @property {number} nPrompt Tokens in the prompt.
 * @property {number} nReused Of these, tokens the KV cache already held.
 * @property {number} nGenerated
 * @property {number} prefillMs From the request to the first token: the time to first token.
 * @property {number} decodeMs From the first token to the last.
 * @property {string} text What was written; equals the pieces joined, bar stop strings trimmed.
 * @property {number} nLeftOut Messages from the start that no longer fit the context.
 * @property {boolean} hasExamples False: a plain transcript without its examples, for want of room.
 * @property {string} promptText What the model was given.
 */

/**
 * Facts for a bug report; keys may be added freely, values are plain JSON.
 * @typedef {object} Report
 * @property {string} version
 * @property {Backend | null} backend
 * @property {string} adapter
 * @property {number} heapBytes Size of Pyodide's heap now.
 * @property {number} deviceBytes Held on the device by weights, KV cache and scratch.
 * @property {Record<string, unknown>} details Adapter limits and features, timings, plan counts.
 */

/**
 * The report's `details.cpu`, while a model runs on the SIMD kernels.
 * @typedef {object} CpuReport
 * @property {number} threads
 * @property {"simd" | "relaxed"} build
 * @property {"int8" | "exact"} variant
 * @property {string[]} accelerated Ops of the model that have a kernel.
 * @property {string[]} reference Ops of the model that numpy runs.
 */

/**
 * @typedef {object} Profile
 * @property {string} text Time, bytes and share of every kernel, as a table of fixed width.
 */

/**
 * What the worker exposes.
 * @typedef {object} EngineApi
 * @property {(request: BootRequest, onProgress: OnProgress) => Promise<Envelope<BootInfo>>} boot
 *   Once per worker; to change the backend the page starts a new worker.
 * @property {(source: ModelSource, options: LoadOptions, onProgress: OnProgress)
 *   => Promise<Envelope<ModelInfo>>} loadModel Unloads the model before it once all but the new
 *   weights was read and found good: a failure says whether it is kept. Another loadModel may follow.
 *   `stop()` during a load ends it with the code "cancelled".
 * @property {(request: ChatRequest, onToken: OnToken) => Promise<Envelope<ReplyStats>>} chat
 * @property {() => Promise<Envelope<null>>} stop Ends the running chat (its answer has
 *   finishReason "cancelled") or load; does nothing when idle. Answers at once.
 * @property {() => Promise<Envelope<null>>} reset Forgets the conversation (clears the KV cache).
 * @property {() => Promise<Envelope<null>>} unload Frees the model and its device memory.
 * @property {() => Promise<Envelope<StorageInfo>>} storage What is stored on this device.
 * @property {(keys: string[]) => Promise<Envelope<null>>} deleteStored Fails with "busy" on a model
 *   that a tab is loading.
 * @property {() => Promise<Envelope<Report>>} report
 * @property {() => Promise<Envelope<Profile>>} profile Runs a short reply of its own, each kernel
 *   timed; the conversation is left alone. Fails with "invalid_input" in numpy.
 */

/**
 * Any thrown thing as an EngineFailure. Errors that already carry code/message/hint keep them; of
 * a Python traceback only its last line is for a person (the rest goes to the console).
 * @param {unknown} thrown
 * @returns {EngineFailure}
 */
export function asFailure(thrown) {
  const error = /** @type {Partial<EngineFailure> | null | undefined} */ (
    typeof thrown === "object" ? thrown : undefined
  );
  const code = typeof error?.code === "string" && error.code ? error.code : "worker_failed";
  const hint = typeof error?.hint === "string" ? error.hint : "";
  let message =
    typeof error?.message === "string" && error.message ? error.message : String(thrown);
  if (message.startsWith("Traceback")) {
    console.error(message);
    message = message.trimEnd().split("\n").pop() ?? message;
  }
  return { code, message, hint, fit: error?.fit, isModelKept: Boolean(error?.isModelKept) };
}

/**
 * Runs `fn` and puts its result, or what it threw, into an envelope.
 * @template T
 * @param {() => T | Promise<T>} fn
 * @returns {Promise<Envelope<T>>}
 */
export async function answer(fn) {
  try {
    return { ok: true, value: await fn() };
  } catch (thrown) {
    return { ok: false, error: asFailure(thrown) };
  }
}
