// The part of Comlink that the worker uses; the file itself is put under vendor/ when the site is
// built.
declare module "*/vendor/comlink.mjs" {
  export function expose(api: object): void;
  export const releaseProxy: unique symbol;
}
