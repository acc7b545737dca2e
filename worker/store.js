// @ts-check
/** Small texts that outlive the page: what was learnt about this machine's adapters. */

const CACHE = "rushlight-adapters";

/** @param {string} key */
const addressOf = (key) => new URL(`../adapters/${key}.json`, import.meta.url);

/**
 * The text under a key; "" if there is none, or if the browser keeps nothing for this page.
 * @param {string} key
 */
export async function recall(key) {
  try {
    const kept = await (await caches.open(CACHE)).match(addressOf(key));
    return kept ? await kept.text() : "";
  } catch (error) {
    console.warn("What was learnt about the GPU could not be read.", error);
    return "";
  }
}

/**
 * @param {string} key
 * @param {string} text
 */
export async function remember(key, text) {
  try {
    await (await caches.open(CACHE)).put(addressOf(key), new Response(text));
  } catch (error) {
    console.warn("What was learnt about the GPU could not be kept.", error);
  }
}

/**
 * How the self-tests of an adapter's kernels went: how many passed, and what failed.
 * @param {string} identity
 * @returns {Promise<{nPassed: number, failed: Record<string, string>} | null>} Null: not tested.
 */
export async function recallTests(identity) {
  try {
    const answers = await (await caches.open(CACHE)).matchAll();
    const kept = await Promise.all(answers.map((answer) => answer.json()));
    const tests = kept.find((each) => each?.adapter === identity)?.tests;
    if (!tests) return null;
    const failed = Object.entries(tests).filter(([, failure]) => failure);
    return {
      nPassed: Object.keys(tests).length - failed.length,
      failed: Object.fromEntries(failed),
    };
  } catch (error) {
    console.warn("What was learnt about the GPU could not be read.", error);
    return null;
  }
}
