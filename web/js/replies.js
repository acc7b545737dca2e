// @ts-check
/** Sending a message, the reply to it, and ending, repeating or failing that reply. */

import { announce } from "./dom.js";
import { asFault, EngineFault } from "./engine_client.js";
import { helpWithDevice } from "./faults.js";
import { showPrompt, showSpeed } from "./header.js";
import { describeStats } from "./reply.js";

/** A stop is answered between two submits; past this the engine is taken to hang. */
const STOP_LIMIT_MS = 20_000;

/**
 * What a reply works with.
 * @typedef {object} ReplyParts
 * @property {import("./activity.js").Activity} activity
 * @property {import("./engine_client.js").EngineClient} client
 * @property {import("./chat.js").Chat} chat
 * @property {import("./composer.js").Composer} composer
 * @property {import("./settings.js").Settings} settings
 * @property {import("./alert.js").AlertView} alert
 * @property {() => void} onRestart Starts the engine anew, model included.
 */

export class Replies {
  /** @param {ReplyParts} parts */
  constructor(parts) {
    this.parts = parts;
  }

  /**
   * @param {string} text
   * @param {number | null} editIndex
   * @returns {boolean} Whether the text was taken.
   */
  send(text, editIndex) {
    const { activity, alert, chat } = this.parts;
    const { state } = activity;
    if (state === "error") alert.recall();
    if (activity.isQueued || state === "generating" || state === "error") return false;
    alert.hide();
    if (editIndex !== null) chat.cut(editIndex);
    chat.addUser(text);
    if (state === "ready") {
      this.#start();
    } else {
      activity.isQueued = true;
      chat.beginReply("Waiting for the model");
      activity.enter();
    }
    return true;
  }

  /** Answers the message that waited for the model, if one did. */
  answerQueued() {
    if (this.parts.activity.isQueued) this.#start();
  }

  takeBackQueued() {
    const { activity, chat, composer } = this.parts;
    if (!activity.isQueued) return;
    activity.isQueued = false;
    const last = chat.length - 1;
    if (!composer.text) composer.text = chat.userText(last);
    chat.cut(last);
  }

  /** @param {boolean} [isVaried] Not the same words as before. */
  #start(isVaried = false) {
    const { activity, chat } = this.parts;
    activity.isQueued = false;
    const reply = chat.beginReply("Reading");
    activity.enter("generating");
    const run = this.#replyNow(reply, isVaried).finally(() => {
      if (activity.work === run) activity.work = null;
    });
    activity.work = run;
  }

  /**
   * @param {import("./reply.js").Reply} reply
   * @param {boolean} isVaried
   */
  async #replyNow(reply, isVaried) {
    const { activity, chat, client, composer, settings } = this.parts;
    const { options, variation } = settings.optionsFor(isVaried);
    const request = { messages: chat.messages, options };
    try {
      const stats = await client.chat(request, (piece) => reply.append(piece));
      reply.finish(stats.text, describeStats(stats, variation));
      if (stats.nLeftOut) chat.leaveOut(stats.nLeftOut);
      showPrompt(stats.promptText);
      showSpeed(stats);
      activity.enter("ready");
      announce(`Reply: ${stats.text}`);
    } catch (thrown) {
      this.#fail(reply, asFault(thrown));
    }
    composer.focusUnlessTouch();
  }

  /**
   * @param {import("./reply.js").Reply} reply
   * @param {EngineFault} fault
   */
  #fail(reply, fault) {
    const { activity, alert, chat, client, onRestart, settings } = this.parts;
    const isClosed = fault.code === "worker_closed"; // on purpose; a load follows
    if (reply.text) reply.finish(reply.text, isClosed ? "Stopped" : "Ended by an error");
    else chat.dropReply();
    if (isClosed) return;
    // Without its worker or its device the engine needs a fresh start, model included.
    const isGone = !client.isBooted || fault.code === "device_lost";
    activity.enter(isGone ? "error" : "ready");
    if (fault.code === "context_full") return this.#refuseMessage(fault);
    const remedy = helpWithDevice(fault, (backend) => settings.choose(backend));
    alert.show(fault, isGone ? onRestart : () => this.again(), remedy);
  }

  /** @param {EngineFault} fault The message is too long: its text goes back to be shortened. */
  #refuseMessage(fault) {
    const { alert, chat, composer, settings } = this.parts;
    const text = chat.takeBack(!composer.text);
    if (text) composer.text = text;
    const larger = { label: "Change the context", run: () => settings.open() };
    alert.show(fault, null, settings.canGrowContext ? larger : null);
  }

  /** Answers the last message, again or at last. @param {boolean} [isVaried] */
  again(isVaried = false) {
    const { activity, alert, chat } = this.parts;
    if (activity.state !== "ready" || chat.isEmpty) return;
    alert.hide();
    this.#start(isVaried);
  }

  stop() {
    const { activity, alert, client, composer, onRestart } = this.parts;
    if (activity.isQueued) {
      this.takeBackQueued();
      activity.enter();
      composer.focus();
      return;
    }
    const stopped = activity.work;
    client.stop().catch((error) => console.info("The stop was not answered.", error));
    setTimeout(() => {
      if (activity.work !== stopped || activity.state !== "generating") return;
      const message = "The engine did not stop.";
      const hint = "Try again starts it anew.";
      alert.show(new EngineFault({ code: "stop_failed", message, hint }), onRestart);
    }, STOP_LIMIT_MS);
  }

  async newChat() {
    const { activity, alert, chat, client, composer } = this.parts;
    this.takeBackQueued();
    composer.cancelEdit();
    alert.hide();
    if (activity.state === "generating") await activity.quiet();
    chat.cut(0);
    showSpeed(null);
    if (activity.state !== "ready") return activity.enter();
    composer.focus();
    await client.reset().catch((error) => alert.show(error));
  }
}
