/** `tidemark fleet serve`: the registry as a page, JSON and metrics, until it is stopped. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { serveFleet } from '../fleet/serve/serve.ts';
import { readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonLog } from './daemon-effects.ts';
import { withRegistry } from './fleet.ts';

/** Exit 0 after a stop. @throws TidemarkError as opening the registry and listening do */
export async function fleetServe(context: CommandContext): Promise<ExitCode> {
  const { http, log: logging } = readLoadedConfig(context, context.options, 'unused');
  const { host, port, token, tokenFile, publicUrl, trustedProxies, userHeader } = http;
  if (token === null && tokenFile !== null) {
    throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
      hint: 'correct http.tokenFile, or the permissions of that file',
    });
  }
  return withRegistry(context, async (registry) => {
    const server = await serveFleet(registry, {
      host,
      port,
      token,
      // Nothing on this machine has to be let in by another token.
      localToken: randomBytes(32).toString('hex'),
      publicUrl,
      trustedProxies,
      userHeader,
      clock: systemClock,
      log: daemonLog(context, logging.level),
    });
    try {
      if (!context.signal.aborted) await once(context.signal, 'abort');
      return EXIT.done;
    } finally {
      await server.close();
    }
  });
}
