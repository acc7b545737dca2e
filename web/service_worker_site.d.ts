/** What the build writes in front of service_worker.js. */
declare const SITE: import("./service_worker.js").Site;
