// @ts-check
/** The page: wires the conversation, the message field, the dialogs and the engine together. */

import { repoOf } from "../worker/hub.js";
import { Activity } from "./activity.js";
import { AlertView } from "./alert.js";
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { Composer, wireStarters } from "./composer.js";
import { fitToKeyboard } from "./dom.js";
import { EngineClient, EngineFault } from "./engine_client.js";
import { showName } from "./header.js";
import { hubAddress } from "./hub_access.js";
import { LoadedModel } from "./loaded.js";
import { Loading } from "./loading.js";
import { ModelPicker, readSiteModel, siteSource, urlSource } from "./models.js";
import { NetworkLog } from "./network_log.js";
import { Offline, isolate } from "./offline.js";
import { ProgressView } from "./progress.js";
import { Replies } from "./replies.js";
import { Settings, wireDialogs, wireTheme } from "./settings.js";
import { wireShortcuts } from "./shortcuts.js";
import { ThreadSettings } from "./thread_settings.js";
import { Threads } from "./threads.js";

new NetworkLog();
const client = new EngineClient();
const progress = new ProgressView(() => client.cancelLoad());
const chat = new Chat();
/** @type {Composer} */
const composer = new Composer({
  onSend: (text, editIndex) => replies.send(text, editIndex),
  onStop: () => replies.stop(),
  onEdit: (at) => chat.markReplaced(at),
});
const activity = new Activity(client, (mode) => composer.setMode(mode));
const threads = new Threads();
const settings = new Settings({
  onDefaults: (defaults) => ownSettings.showDefaults(defaults),
  onKeep: (isKept) => conversations.keep(isKept),
  isKept: threads.isKept,
  onBackend: () => loading.restart(),
  onReload: () => loading.again(),
  getReport: async () => client.report(),
  getProfile: async () => client.profile(),
});
const picker = new ModelPicker({
  client,
  onPick: (picked) => void loading.load(picked),
  onError: (error) => alert.show(error),
});
const loaded = new LoadedModel(settings, picker);
const alert = new AlertView({ onPick: () => picker.open(), onClose: () => composer.focus() });
const ownSettings = new ThreadSettings(threads);
const shared = { activity, client, chat, composer, settings, alert, loaded, threads };
const loading = new Loading({
  ...shared,
  progress,
  onReady: () => {
    conversations.showUsed();
    replies.answerQueued();
  },
  onFail: () => replies.takeBackQueued(),
  onToken: (source) => picker.askToken(source),
});
/** @type {Replies} */
const replies = new Replies({ ...shared, onRestart: () => loading.restart() });
/** @type {Conversations} */
const conversations = new Conversations({ ...shared, replies });

/** @param {number} index Of a message that the person wrote; -1: there is none. */
function edit(index) {
  if (index >= 0 && activity.state === "ready") composer.edit(index, chat.userText(index));
}

function wire() {
  wireDialogs();
  wireTheme();
  chat.addEventListener("edit", (event) => edit(/** @type {CustomEvent<number>} */ (event).detail));
  chat.addEventListener("again", () => replies.again(true));
  chat.addEventListener("continue", () => replies.goOn());
  wireShortcuts({
    onNewChat: () => void conversations.begin(),
    onSearch: () => conversations.panel.find(),
    onFocus: () => composer.focus(),
    onEditLast: () => edit(chat.lastUserIndex),
  });
  wireStarters(composer, (text, editIndex) => replies.send(text, editIndex));
  fitToKeyboard();
}

/** The model asked for in the address (of a repository, the choice of its files), or the site's own. */
async function start() {
  const asked = new URLSearchParams(location.search).get("model");
  try {
    // The address is what was asked for: a site without its own model still serves it.
    const [site] = await Promise.all([readSiteModel(!!asked), picker.catalogue.read()]);
    loaded.site = site;
    if (site) picker.offerDefault(site);
    const repo = asked ? repoOf(asked, hubAddress()) : "";
    if (repo) {
      showName("No model", "");
      activity.enter("error");
      return picker.openRepo(repo);
    }
    if (asked) return await loading.load(urlSource(asked));
    if (site) return await loading.load(siteSource(site));
    const message = "This site has no model of its own.";
    const hint = "Choose one by its address or from this device.";
    throw new EngineFault({ code: "no_model", message, hint });
  } catch (thrown) {
    showName("No model", "");
    loading.fail(thrown, null);
  }
}

wire();
activity.enter("booting");
void threads.start();
void isolate().then(start);
void new Offline().start();
