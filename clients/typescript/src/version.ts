// How this package names itself to the service.

/** The version of this package, as its package.json has it. */
export const version = "0.3.1";

/** The header that names who asks. */
export const userAgentHeader = "user-agent";

/**
 * What stands in User-Agent; undefined in browsers. There the browser names itself, and a page that set the header
 * would need the permission of a preflight.
 */
export const userAgent: string | undefined =
  "document" in globalThis || "WorkerGlobalScope" in globalThis ? undefined : `roamcard-typescript/${version}`;
