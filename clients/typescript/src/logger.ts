// What a client writes down. Never a payment, a token, a card or an eSIM.
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/** Takes a constant message and what belongs to it. The console fits. */
export interface Logger {
  debug(message: string, fields: Record<string, unknown>): void;
  info(message: string, fields: Record<string, unknown>): void;
  warn(message: string, fields: Record<string, unknown>): void;
}

/**
 * A logger that cannot fail: what it throws, or what a promise of it is rejected with, is dropped, as a payment that
 * was made must not look as if it was not.
 */
export function unfailing(logger: Logger): Logger {
  const told =
    (level: keyof Logger): Logger["info"] =>
    (message, fields) =>
      void (async () => logger[level](message, fields))().catch(() => {});
  return { debug: told("debug"), info: told("info"), warn: told("warn") };
}

/** The header that names a request in the service's logs. */
export const requestIdHeader = "x-request-id";

/** One line for each request that was answered or failed. */
export function logging(logger: Logger): Interceptor {
  return (next) => async (request) => {
    const began = Date.now();
    const fields = (more: Record<string, unknown>, headers?: Headers) => ({
      method: `${request.service.typeName}/${request.method.name}`,
      ms: Date.now() - began,
      requestId: headers?.get(requestIdHeader) ?? undefined,
      ...more,
    });
    try {
      const response = await next(request);
      logger.debug("request answered", fields({}, response.header));
      return response;
    } catch (reason) {
      const error = ConnectError.from(reason);
      logger.debug("request failed", fields({ code: Code[error.code] }, error.metadata));
      throw reason;
    }
  };
}
