// @ts-check
/** Loading a model, and the engine first if it does not run; what is left when that fails. */

import { announce, part } from "./dom.js";
import { asFault } from "./engine_client.js";
import { helpWithLoad } from "./faults.js";
import { showName } from "./header.js";
import { withHub } from "./hub_access.js";
import { sourceName } from "./models.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */
/** @typedef {import("../worker/protocol.js").LoadOptions} LoadOptions */

/**
 * What a load works with.
 * @typedef {object} LoadingParts
 * @property {import("./activity.js").Activity} activity
 * @property {import("./engine_client.js").EngineClient} client
 * @property {import("./chat.js").Chat} chat
 * @property {import("./composer.js").Composer} composer
 * @property {import("./settings.js").Settings} settings
 * @property {import("./alert.js").AlertView} alert
 * @property {import("./loaded.js").LoadedModel} loaded
 * @property {import("./progress.js").ProgressView} progress
 * @property {(source: ModelSource) => void} onToken The hub wants to know who asks for this.
 * @property {() => void} onReady A model is loaded; answers the message that waits for it, if any.
 * @property {() => void} onFail A message that waits goes back to its field.
 */

export class Loading {
  /** @type {ModelSource | null} The last one asked for. */
  source = null;
  /** Counts loads: a load that is no longer the newest gives way without a word. */
  #newest = 0;

  /** @param {LoadingParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /**
   * The newest call wins.
   * @param {ModelSource} wanted
   * @param {LoadOptions} [changes] What counts for this load instead of the settings.
   */
  async load(wanted, changes = {}) {
    const { activity, alert, onReady } = this.parts;
    const turn = ++this.#newest;
    this.source = wanted;
    alert.hide();
    showName(sourceName(wanted), "Loading…");
    await activity.quiet();
    if (turn !== this.#newest) return;
    activity.work = this.#loadNow(wanted, changes, () => turn === this.#newest);
    await activity.work;
    if (turn !== this.#newest) return;
    activity.work = null;
    if (activity.state === "ready") onReady();
  }

  again() {
    if (this.source) void this.load(this.source);
  }

  /** Ends the worker and starts over with the backend now set; the conversation stays. */
  restart() {
    if (!this.source) return;
    this.parts.loaded.clear();
    this.parts.client.close();
    void this.load(this.source);
  }

  /**
   * @param {ModelSource} wanted
   * @param {LoadOptions} changes
   * @param {() => boolean} isNewest
   */
  async #loadNow(wanted, changes, isNewest) {
    const { activity, client, chat, composer, settings, loaded, progress } = this.parts;
    const onProgress = (/** @type {import("../worker/protocol.js").Progress} */ step) => {
      if (isNewest()) progress.show(step);
    };
    activity.enter(client.isBooted ? "loading" : "booting");
    if (client.isBooted) progress.begin("header", "Opening the model");
    else progress.begin("runtime", "Starting the engine");
    chat.follow();
    try {
      if (!client.isBooted) await client.boot(settings.bootRequest, onProgress);
      if (!isNewest()) return;
      activity.enter("loading");
      const options = { ...settings.loadOptions, ...changes };
      const info = await client.loadModel(withHub(wanted), options, onProgress);
      loaded.set(wanted, info);
      if (!isNewest()) return;
      chat.takeAllIn();
      loaded.show();
      activity.enter("ready");
      announce(`${loaded.name} is ready.`);
      composer.focusUnlessTouch();
    } catch (thrown) {
      if (isNewest()) this.fail(thrown, () => void this.load(wanted, changes), wanted, changes);
    } finally {
      if (isNewest()) progress.end();
    }
  }

  /**
   * A refused file leaves the model before it; else none is loaded now.
   * @param {unknown} thrown
   * @param {(() => void) | null} again
   * @param {ModelSource | null} [wanted]
   * @param {LoadOptions} [changes]
   */
  fail(thrown, again, wanted = null, changes = {}) {
    const { activity, client, chat, settings, loaded, alert, onFail } = this.parts;
    const fault = asFault(thrown);
    onFail();
    const hadModel = client.isBooted && !!loaded.source && !fault.isModelKept;
    if (!fault.isModelKept) loaded.clear();
    this.source = loaded.source ?? this.source;
    if (!loaded.source) part("model-size").textContent = "Not loaded";
    loaded.show();
    activity.enter(loaded.source ? "ready" : "error");
    if (loaded.source && fault.code === "cancelled") return;
    const help = helpWithLoad(fault, hadModel, wanted, {
      choose: (backend) => settings.choose(backend),
      shrink: (options) => wanted && void this.load(wanted, { ...changes, ...options }),
      force: () => wanted && void this.load(wanted, { ...changes, isForced: true }),
      askToken: () => wanted && this.parts.onToken(wanted),
    });
    if (loaded.source) fault.hint += " The model before it is still there.";
    // The same file of this device holds the same bytes when tried again.
    const isHopeless = wanted?.kind === "file" && fault.code === "model_format";
    alert.show(fault, help.again?.run ?? (isHopeless ? null : again), help.remedy, help.again?.label);
    chat.follow();
  }
}
