// @ts-check
/** Names of files in addresses. */

/**
 * The last part of an address as a person would write it; as it stands where its escapes are wrong.
 * @param {string} address
 */
export function fileNameOf(address) {
  return decoded(address.split(/[?#]/)[0].split("/").pop() ?? "");
}

/** @param {string} text Part of an address. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
