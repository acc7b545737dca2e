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
    text?: string;
    /** Of code: what follows its fence. */
    lang?: string;
    /** Of a list. */
    ordered?: boolean;
    start?: number | "";
    items?: Token[];
    /** Of a table. */
    rows?: unknown[];
  }
  /** A syntax of our own. */
  export interface Extension {
    name: string;
    level: "block" | "inline";
    start(src: string): number | undefined;
    tokenizer(src: string): { type: string; raw: string } | undefined;
    renderer(token: { raw: string }): string;
  }
  export interface Renderer {
    html(token: { text: string; block: boolean }): string;
    code(token: { text: string; lang?: string }): string;
    checkbox(token: { checked: boolean }): string;
    image(token: { href: string; text: string }): string;
  }
  export class Marked {
    constructor(options: { gfm?: boolean; breaks?: boolean; extensions?: Extension[]; renderer?: Partial<Renderer> });
    lexer(text: string): Token[];
    parser(tokens: Token[]): string;
  }
}

declare module "*/vendor/purify.es.mjs" {
  interface Config {
    ALLOWED_TAGS: string[];
    ALLOWED_ATTR: string[];
    ADD_URI_SAFE_ATTR: string[];
    ALLOWED_URI_REGEXP: RegExp;
    ALLOW_DATA_ATTR: boolean;
    ALLOW_ARIA_ATTR: boolean;
    RETURN_DOM_FRAGMENT: true;
  }
  const DOMPurify: { sanitize(html: string, config: Config): DocumentFragment };
  export default DOMPurify;
}

declare module "*/vendor/highlight/core.min.js" {
  const highlighter: {
    highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { value: string };
    registerLanguage(name: string, grammar: unknown): void;
  };
  export default highlighter;
}
