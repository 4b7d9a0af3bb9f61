/** `tidemark fleet serve`: serves the registry as a page, JSON and metrics, until it is stopped. */
import { randomBytes } from 'node:crypto';
import type { HttpConfig } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { HttpEndpoint } from '../daemon/http-endpoint.ts';
import { serveFleet } from '../fleet/serve/serve.ts';
import { readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonLog } from './daemon-effects.ts';
import { withRegistry } from './fleet.ts';
import { ServedSettings } from './served-settings.ts';

/** Exit 0 after a stop. @throws TidemarkError if the registry cannot be opened, or the address cannot be used */
export async function fleetServe(context: CommandContext): Promise<ExitCode> {
  const first = readLoadedConfig(context, context.options, 'unused');
  requireToken(first.http);
  const log = daemonLog(context, first.log.level);
  const settings = new ServedSettings(context, {
    log,
    load: () => readLoadedConfig(context, context.options, 'unused'),
    take: ({ http }) => requireToken(http),
  });
  return withRegistry(context, async (registry) => {
    const start = (): ReturnType<typeof serveFleet> => {
      const { host, port, token, publicUrl, trustedProxies, userHeader } = settings.current().http;
      return serveFleet(registry, {
        host,
        port,
        token,
        // Unknown to everybody: no program on this machine needs access without `token`.
        localToken: randomBytes(32).toString('hex'),
        publicUrl,
        trustedProxies,
        userHeader,
        clock: systemClock,
        log,
      });
    };
    const endpoint = new HttpEndpoint({ start, setUrl: () => undefined, problems: settings.problems });
    try {
      await endpoint.open(settings.current().http);
      await settings.untilStopped(() => endpoint.ensure(settings.current().http));
      return EXIT.done;
    } finally {
      await endpoint.close();
    }
  });
}

/** @throws TidemarkError `config_invalid` if the token's file has none */
function requireToken({ token, tokenFile }: HttpConfig): void {
  if (token !== null || tokenFile === null) return;
  throw new TidemarkError('config_invalid', `${tokenFile} gave no token: nothing listens without it`, {
    hint: 'correct http.tokenFile, or the permissions of that file',
  });
}
