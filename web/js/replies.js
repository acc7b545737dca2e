// @ts-check
/** Sending a message, the reply to it, and ending, repeating or failing that reply. */

import { showContext } from "./context_meter.js";
import { announce } from "./dom.js";
import { asFault, EngineFault } from "./engine_client.js";
import { helpWithDevice } from "./faults.js";
import { showPrompt, showSpeed } from "./header.js";
import { splitThought } from "./render.js";
import { describeStats } from "./reply.js";

/** @typedef {import("./reply.js").Reply} Reply */
/** @typedef {import("./tree.js").MessageNode} MessageNode */

/** A stop is answered between two submits; past this the engine is taken to hang. */
const STOP_LIMIT_MS = 20_000;
/** A reply that is being written is kept this often, for a tab that is closed meanwhile. */
const KEEP_MS = 2_000;

/**
 * What a reply works with.
 * @typedef {object} ReplyParts
 * @property {import("./activity.js").Activity} activity
 * @property {import("./engine_client.js").EngineClient} client
 * @property {import("./chat.js").Chat} chat
 * @property {import("./composer.js").Composer} composer
 * @property {import("./settings.js").Settings} settings
 * @property {import("./alert.js").AlertView} alert
 * @property {import("./loaded.js").LoadedModel} loaded
 * @property {import("./threads.js").Threads} threads
 * @property {() => void} onRestart Starts the engine anew, model included.
 */

export class Replies {
  /** What is being written. One that was stopped is it no more. @type {{reply: Reply} | null} */
  #live = null;

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
    const { activity, alert, chat, threads } = this.parts;
    const { state } = activity;
    if (state === "error") alert.recall();
    if (activity.isQueued || state === "generating" || state === "error") return false;
    alert.hide();
    chat.addUser(text, editIndex);
    void threads.written();
    if (state === "ready") {
      this.#start(chat.beginReply("Reading"));
    } else {
      activity.isQueued = true;
      chat.beginReply("Waiting for the model");
      activity.enter();
    }
    return true;
  }

  /** Answers the message that waited for the model, if one did. */
  answerQueued() {
    const { activity, chat } = this.parts;
    if (activity.isQueued) this.#start(chat.beginReply("Reading"));
  }

  takeBackQueued() {
    const { activity, chat, composer, threads } = this.parts;
    if (!activity.isQueued) return;
    activity.isQueued = false;
    const text = chat.takeBack(true);
    if (!composer.text) composer.text = text;
    void threads.save();
  }

  /** Answers the last message, again or at last. @param {boolean} [isVaried] Not the same words. */
  again(isVaried = false) {
    const { activity, alert, chat } = this.parts;
    if (activity.state !== "ready" || chat.isEmpty) return;
    alert.hide();
    this.#start(chat.beginReply("Reading"), isVaried);
  }

  /** Goes on with the last reply, which was cut short. */
  goOn() {
    const { activity, alert, chat } = this.parts;
    if (activity.state !== "ready" || !chat.canContinue) return;
    alert.hide();
    this.#start(chat.resumeReply());
  }

  /**
   * @param {Reply} reply
   * @param {boolean} [isVaried]
   */
  #start(reply, isVaried = false) {
    const { activity } = this.parts;
    const before = activity.work; // a stopped reply, which the engine has yet to end
    const run = { reply };
    activity.isQueued = false;
    this.#live = run;
    activity.enter("generating");
    const work = Promise.resolve(before)
      .then(() => this.#replyNow(run, isVaried))
      .finally(() => {
        if (activity.work === work) activity.work = null;
      });
    activity.work = work;
  }

  /**
   * @param {{reply: Reply}} run
   * @param {boolean} isVaried
   */
  async #replyNow(run, isVaried) {
    const { chat, client, settings, threads } = this.parts;
    const { reply } = run;
    if (this.#live !== run) return; // stopped before it began
    const { system, options: own } = threads.current;
    const { options, variation } = settings.optionsFor(isVaried, own);
    const messages = chat.messagesFor(reply.node);
    if (system) messages.unshift({ role: "system", content: system });
    const begun = reply.node.text;
    let keptMs = performance.now();
    try {
      const stats = await client.chat({ messages, options }, (piece) => {
        if (this.#live !== run) return;
        reply.append(piece);
        if (performance.now() - keptMs < KEEP_MS) return;
        keptMs = performance.now();
        this.#keep(reply, reply.text, "interrupted", "Interrupted");
      });
      this.#finish(run, begun, stats, variation);
    } catch (thrown) {
      this.#fail(run, asFault(thrown));
    }
  }

  /**
   * @param {{reply: Reply}} run
   * @param {string} begun What it went on from.
   * @param {import("../worker/protocol.js").ReplyStats} stats
   * @param {string} variation
   */
  #finish(run, begun, stats, variation) {
    const { activity, chat, composer, loaded, threads } = this.parts;
    const { reply } = run;
    const isLive = this.#live === run;
    const isInView = threads.current.tree.get(reply.node.id) === reply.node;
    // A stopped reply hears of its end late: it may be written on by then, or out of view.
    if (isLive || (isInView && this.#live?.reply !== reply)) {
      const outcome = describeStats(stats, variation);
      const used = stats.nPrompt + stats.nGenerated;
      Object.assign(reply.node, { model: loaded.name, used });
      reply.finish(begun + stats.text, outcome);
      this.#keep(reply, begun + stats.text, stats.finishReason, outcome);
      if (stats.nLeftOut) chat.leaveOut(stats.nLeftOut);
      chat.sync();
      showPrompt(stats.promptText);
      showSpeed(stats);
      showContext(used, loaded.nCtx);
    }
    if (!isLive) return;
    this.#live = null;
    activity.enter("ready");
    announce(`Reply: ${splitThought(stats.text).answer}`);
    composer.focusUnlessTouch();
  }

  /**
   * Writes a reply down as it is now.
   * @param {Reply} reply
   * @param {string} text
   * @param {import("./tree.js").Finish} finish
   * @param {string} outcome
   */
  #keep({ node }, text, finish, outcome) {
    const { threads } = this.parts;
    Object.assign(node, { text, finish, outcome, at: Date.now() });
    if (threads.current.tree.get(node.id) === node) void threads.save();
  }

  /**
   * @param {{reply: Reply}} run
   * @param {EngineFault} fault
   */
  #fail(run, fault) {
    const { activity, alert, chat, client, composer, onRestart, settings } = this.parts;
    const { reply } = run;
    const isLive = this.#live === run;
    if (isLive) this.#live = null;
    const isClosed = fault.code === "worker_closed"; // on purpose; a load follows
    if (isLive && reply.text) {
      const outcome = isClosed ? "Stopped" : "Ended by an error";
      reply.finish(reply.text, outcome);
      this.#keep(reply, reply.text, isClosed ? "cancelled" : "error", outcome);
      chat.sync();
    } else if (isLive) {
      chat.dropReply(reply);
    }
    if (isClosed) return;
    // Without its worker or its device the engine needs a fresh start, model included.
    const isGone = !client.isBooted || fault.code === "device_lost";
    if (!isLive && !isGone) return console.info("A stopped reply failed.", fault);
    activity.enter(isGone ? "error" : "ready");
    composer.focusUnlessTouch();
    if (fault.code === "context_full") return this.#refuseMessage(fault);
    const remedy = helpWithDevice(fault, (backend) => settings.choose(backend));
    alert.show(fault, isGone ? onRestart : () => this.again(), remedy);
  }

  /** @param {EngineFault} fault The message is too long: its text goes back to be shortened. */
  #refuseMessage(fault) {
    const { alert, chat, composer, settings, threads } = this.parts;
    const larger = { label: "Change the context", run: () => settings.open() };
    alert.show(fault, null, settings.canGrowContext ? larger : null);
    if (chat.canContinue) return; // a reply that has no room to go on
    const text = chat.takeBack(!composer.text);
    if (text) composer.text = text;
    void threads.save();
  }

  /** What is written stays; the page goes on at once, and the engine ends behind it. */
  stop() {
    const { activity, alert, chat, client, composer, onRestart } = this.parts;
    if (activity.isQueued) {
      this.takeBackQueued();
      activity.enter();
      composer.focus();
      return;
    }
    if (!this.#live) return;
    const { reply } = this.#live;
    this.#live = null;
    reply.finish(reply.text, "Stopped");
    this.#keep(reply, reply.text, "cancelled", "Stopped");
    chat.sync();
    activity.enter("ready");
    announce("Stopped.");
    let isOver = false;
    void activity.work?.then(() => (isOver = true));
    client.stop().catch((error) => console.info("The stop was not answered.", error));
    setTimeout(() => {
      if (isOver) return;
      const message = "The engine did not stop.";
      const hint = "Try again starts it anew.";
      alert.show(new EngineFault({ code: "stop_failed", message, hint }), onRestart);
    }, STOP_LIMIT_MS);
  }

  /** Ends what is going on in the conversation in view, before another takes its place. */
  async leave() {
    const { activity, alert, composer } = this.parts;
    this.takeBackQueued();
    composer.cancelEdit();
    alert.hide();
    if (activity.state === "generating") this.stop();
    if (activity.state === "ready") await activity.quiet();
  }
}
