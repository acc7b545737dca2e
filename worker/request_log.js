// @ts-check
/** What the browser recorded about the requests of this thread, told to the page as they end. */

/**
 * One request, of whichever thread.
 * @typedef {object} RequestRecord
 * @property {string} url
 * @property {string} initiator "navigation", "fetch", "script", …, or "redirect": where one was sent.
 * @property {number} atMs When it began, in milliseconds since 1970.
 * @property {number} tookMs
 * @property {number} nBytes That went over the network, headers included; 0 if they are not told.
 * @property {number} bodyBytes
 * @property {number} status 0: no answer, or one that the browser keeps to itself.
 * @property {boolean} isPassedOn The service worker had it in hand: no size on the network is told.
 * @property {boolean} isCopy The service worker gave what it keeps for offline use.
 */

/**
 * @param {object} entry A resource of some thread, or the page's own navigation.
 * @param {number} timeOrigin Of that thread.
 * @returns {RequestRecord}
 */
export function recordOf(entry, timeOrigin = performance.timeOrigin) {
  const timing = /** @type {PerformanceResourceTiming} */ (entry);
  return {
    url: timing.name,
    initiator: timing.entryType === "navigation" ? "navigation" : timing.initiatorType,
    atMs: timeOrigin + timing.startTime,
    tookMs: timing.duration,
    nBytes: timing.transferSize,
    bodyBytes: timing.encodedBodySize,
    status: timing.responseStatus,
    isPassedOn: timing.workerStart > 0,
    isCopy: timing.serverTiming.some(({ name }) => name === "copy"),
  };
}

/** @param {PerformanceObserverEntryList} list */
const recordsOf = (list) => list.getEntries().map((entry) => recordOf(entry));

/**
 * Calls back with the requests of this thread so far, and then with each further one.
 * @param {(records: RequestRecord[]) => void} onRecords
 */
export function watchRequests(onRecords) {
  const observer = new PerformanceObserver((list) => onRecords(recordsOf(list)));
  observer.observe({ type: "resource", buffered: true });
}

/**
 * In a worker whose name is the page's channel: reports there. The browser's records name only the
 * address that was asked for, so where a host sends a download on to is added.
 */
export function reportRequests() {
  if (!self.name) return; // not started by the page
  const channel = new BroadcastChannel(self.name);
  watchRequests((records) => channel.postMessage(records));
  const plainFetch = self.fetch;
  self.fetch = async (input, init) => {
    const began = performance.now();
    const response = await plainFetch(input, init);
    if (response.redirected) {
      const { url, status } = response;
      const [atMs, tookMs] = [performance.timeOrigin + began, performance.now() - began];
      const sizes = { nBytes: 0, bodyBytes: 0, isPassedOn: false, isCopy: false };
      channel.postMessage([{ url, initiator: "redirect", atMs, tookMs, status, ...sizes }]);
    }
    return response;
  };
}
