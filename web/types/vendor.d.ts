// The parts of the vendored libraries that the page uses. The files themselves are put under
// vendor/ when the site is built, so these patterns stand in for them in type checks.

declare module "*/vendor/comlink.mjs" {
  /** All methods of what we wrap are asynchronous already, so the remote has the same shape. */
  export function wrap<T>(endpoint: Worker): T;
  export function proxy<T extends object>(value: T): T;
  export const releaseProxy: unique symbol;
}

declare module "*/vendor/marked.esm.js" {
  export interface Token {
    type: string;
    raw: string;
  }
  export interface Renderer {
    html(token: { text: string; block: boolean }): string;
    checkbox(token: { checked: boolean }): string;
    image(token: { href: string; text: string }): string;
  }
  export class Marked {
    constructor(options: { gfm?: boolean; breaks?: boolean; renderer?: Partial<Renderer> });
    lexer(text: string): Token[];
    parser(tokens: Token[]): string;
  }
}

declare module "*/vendor/purify.es.mjs" {
  interface Config {
    ALLOWED_TAGS: string[];
    ALLOWED_ATTR: string[];
    ALLOWED_URI_REGEXP: RegExp;
    ALLOW_DATA_ATTR: boolean;
    ALLOW_ARIA_ATTR: boolean;
    RETURN_DOM_FRAGMENT: true;
  }
  const DOMPurify: { sanitize(html: string, config: Config): DocumentFragment };
  export default DOMPurify;
}
