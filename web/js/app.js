// @ts-check
/**
 * The page: wires the conversation, the message field, the dialogs and the engine together.
 *
 * One thing runs at a time (`work`): a load or a reply. What starts another first ends the one
 * before. `document.body.dataset.state` says where the page is, for styles and for tests.
 */

import { AlertView } from "./alert.js";
import { Chat, describeStats } from "./chat.js";
import { Composer, wireStarters } from "./composer.js";
import { announce, fitToKeyboard, part } from "./dom.js";
import { asFault, EngineClient, EngineFault } from "./engine_client.js";
import { helpWithLoad } from "./faults.js";
import { showName, showPrompt, showSpeed } from "./header.js";
import { LoadedModel } from "./loaded.js";
import { ModelPicker, readSiteModel, siteSource, sourceName, urlSource } from "./models.js";
import { ProgressView } from "./progress.js";
import { Settings, wireDialogs, wireTheme } from "./settings.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */
/** @typedef {"booting" | "loading" | "ready" | "generating" | "error"} State */

/** A stop is answered between two submits; past this the engine is taken to hang. */
const STOP_LIMIT_MS = 20_000;

const client = new EngineClient();
const progress = new ProgressView(() => client.cancelLoad());
const chat = new Chat();
const composer = new Composer({ onSend: send, onStop: stop, onEdit: (at) => chat.markReplaced(at) });
const settings = new Settings({
  onBackend: restart,
  onReload: () => source && void load(source),
  getReport: () => client.report(),
  getProfile: () => client.profile(),
});
const picker = new ModelPicker({ client, onPick: (picked) => void load(picked), onError: (error) => alert.show(error) });
const loaded = new LoadedModel(settings, picker);
const alert = new AlertView({ onPick: () => picker.open(), onClose: () => composer.focus() });

/** @type {State} */
let state = "booting";
/** @type {ModelSource | null} */
let source = null;
/** @type {Promise<void> | null} The load or reply that runs; never rejects. */
let work = null;
/** Counts loads: a load that is no longer the newest gives way without a word. */
let newestLoad = 0;
/** A message was sent before the model was ready. */
let isQueued = false;

/** @param {State} next */
function setState(next) {
  state = next;
  document.body.dataset.state = next;
  const canStop = next === "generating" || isQueued;
  composer.setMode({ canSend: next === "ready", canStop });
}

/** Ends what runs and waits for its end. */
async function quiet() {
  if (!work) return;
  if (client.isBooted) await client.stop().catch((error) => console.info("Nothing to stop.", error));
  await work;
}

/**
 * Loads a model, and the engine first if it does not run. The newest call wins.
 * @param {ModelSource} wanted
 */
async function load(wanted) {
  const turn = ++newestLoad;
  source = wanted;
  alert.hide();
  showName(sourceName(wanted), "Loading…");
  await quiet();
  if (turn !== newestLoad) return;
  work = loadNow(wanted, () => turn === newestLoad);
  await work;
  if (turn === newestLoad) work = null;
  if (turn === newestLoad && state === "ready" && isQueued) startReply();
}

/**
 * @param {ModelSource} wanted
 * @param {() => boolean} isNewest
 */
async function loadNow(wanted, isNewest) {
  const onProgress = (/** @type {import("../worker/protocol.js").Progress} */ step) => {
    if (isNewest()) progress.show(step);
  };
  setState(client.isBooted ? "loading" : "booting");
  progress.begin(client.isBooted ? "header" : "runtime", client.isBooted ? "Opening the model" : "Starting the engine");
  chat.follow();
  try {
    if (!client.isBooted) await client.boot(settings.bootRequest, onProgress);
    if (!isNewest()) return;
    setState("loading");
    const info = await client.loadModel(wanted, settings.loadOptions, onProgress);
    loaded.set(wanted, info);
    if (!isNewest()) return;
    chat.takeAllIn();
    loaded.show();
    setState("ready");
    announce(`${loaded.name} is ready.`);
    composer.focusUnlessTouch();
  } catch (thrown) {
    if (isNewest()) failLoad(thrown, () => void load(wanted));
  } finally {
    if (isNewest()) progress.end();
  }
}

/**
 * A refused file leaves the model before it; else none is loaded now. A waiting message goes back
 * to its field.
 * @param {unknown} thrown
 * @param {(() => void) | null} again
 */
function failLoad(thrown, again) {
  const fault = asFault(thrown);
  takeBackQueued();
  const hadModel = client.isBooted && !!loaded.source && !fault.isModelKept;
  if (!fault.isModelKept) loaded.clear();
  source = loaded.source ?? source;
  if (!loaded.source) part("model-size").textContent = "Not loaded";
  loaded.show();
  setState(loaded.source ? "ready" : "error");
  if (loaded.source && fault.code === "cancelled") return;
  alert.show(fault, again, helpWithLoad(fault, hadModel, (backend) => settings.choose(backend)));
  chat.follow();
}

/** Ends the worker and starts over with the backend now set; the conversation stays. */
function restart() {
  if (!source) return;
  loaded.clear();
  client.close();
  void load(source);
}

/**
 * @param {string} text
 * @param {number | null} editIndex
 * @returns {boolean} Whether the text was taken.
 */
function send(text, editIndex) {
  if (state === "error") alert.recall();
  if (isQueued || state === "generating" || state === "error") return false;
  alert.hide();
  if (editIndex !== null) chat.cut(editIndex);
  chat.addUser(text);
  if (state === "ready") {
    startReply();
  } else {
    isQueued = true;
    chat.beginReply("Waiting for the model");
    setState(state);
  }
  return true;
}

function takeBackQueued() {
  if (!isQueued) return;
  isQueued = false;
  const last = chat.length - 1;
  if (!composer.text) composer.text = chat.userText(last);
  chat.cut(last);
}

/** @param {boolean} [isVaried] Not the same words as before. */
function startReply(isVaried = false) {
  isQueued = false;
  const reply = chat.beginReply("Reading");
  setState("generating");
  const run = replyNow(reply, isVaried).finally(() => {
    if (work === run) work = null;
  });
  work = run;
}

/**
 * @param {ReturnType<Chat["beginReply"]>} reply
 * @param {boolean} isVaried
 */
async function replyNow(reply, isVaried) {
  const { options, variation } = settings.optionsFor(isVaried);
  const request = { messages: chat.messages, options };
  try {
    const stats = await client.chat(request, (piece) => reply.append(piece));
    reply.finish(stats.text, describeStats(stats, variation));
    if (stats.nLeftOut) chat.leaveOut(stats.nLeftOut);
    showPrompt(stats.promptText);
    showSpeed(stats);
    setState("ready");
    announce(`Reply: ${stats.text}`);
  } catch (thrown) {
    failReply(reply, asFault(thrown));
  }
  composer.focusUnlessTouch();
}

/**
 * @param {ReturnType<Chat["beginReply"]>} reply
 * @param {EngineFault} fault
 */
function failReply(reply, fault) {
  const isClosed = fault.code === "worker_closed"; // on purpose; a load follows
  if (reply.text) reply.finish(reply.text, isClosed ? "Stopped" : "Ended by an error");
  else chat.dropReply();
  if (isClosed) return;
  // Without its worker or its device the engine needs a fresh start, model included.
  const isGone = !client.isBooted || fault.code === "device_lost";
  setState(isGone ? "error" : "ready");
  if (fault.code === "context_full") return refuseMessage(fault);
  alert.show(fault, isGone ? restart : () => again());
}

/** @param {EngineFault} fault The message is too long: its text goes back to be shortened. */
function refuseMessage(fault) {
  const text = chat.takeBack(!composer.text);
  if (text) composer.text = text;
  const larger = { label: "Change the context", run: () => settings.open() };
  alert.show(fault, null, settings.canGrowContext ? larger : null);
}

/** Answers the last message, again or at last. @param {boolean} [isVaried] */
function again(isVaried = false) {
  if (state !== "ready" || chat.isEmpty) return;
  alert.hide();
  startReply(isVaried);
}

function stop() {
  if (isQueued) {
    takeBackQueued();
    setState(state);
    composer.focus();
    return;
  }
  const stopped = work;
  client.stop().catch((error) => console.info("The stop was not answered.", error));
  setTimeout(() => {
    if (work !== stopped || state !== "generating") return;
    const message = "The engine did not stop.";
    alert.show(new EngineFault({ code: "stop_failed", message, hint: "Try again starts it anew." }), restart);
  }, STOP_LIMIT_MS);
}

async function newChat() {
  takeBackQueued();
  composer.cancelEdit();
  alert.hide();
  if (state === "generating") await quiet();
  chat.cut(0);
  showSpeed(null);
  if (state !== "ready") return setState(state);
  composer.focus();
  await client.reset().catch((error) => alert.show(error));
}

/** @param {Event} event */
function edit(event) {
  const index = /** @type {CustomEvent<number>} */ (event).detail;
  composer.edit(index, chat.userText(index));
}

function wire() {
  wireDialogs();
  wireTheme();
  chat.addEventListener("edit", edit);
  chat.addEventListener("again", () => again(true));
  part("new-chat").addEventListener("click", () => void newChat());
  wireStarters(composer, send);
  fitToKeyboard();
}

/** The model asked for in the address, or else the site's own. */
async function start() {
  const asked = new URLSearchParams(location.search).get("model");
  try {
    // The address is what was asked for: a site without its own model still serves it.
    const site = await readSiteModel(!!asked);
    loaded.site = site;
    if (site) picker.offerDefault(site);
    if (asked) return await load(urlSource(asked));
    if (site) return await load(siteSource(site));
    const message = "This site has no model of its own.";
    throw new EngineFault({ code: "no_model", message, hint: "Choose one by its address or from this device." });
  } catch (thrown) {
    showName("No model", "");
    failLoad(thrown, null);
  }
}

wire();
setState("booting");
void start();
