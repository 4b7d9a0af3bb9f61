/** `tidemark sandbox`: a server that imitates the service. Runs until it is stopped. */
import { hostname } from 'node:os';
import { wideNetworks } from '../config/checking.ts';
import { profileOption } from '../config/profile.ts';
import { aborted } from '../core/aborted.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import type { ListeningAt } from '../core/local-url.ts';
import { createSandbox } from '../server/sandbox.ts';
import { print, printNote, type CommandContext, printJson } from './context.ts';
import { commandLog } from './command-log.ts';

interface SandboxCommandOptions {
  readonly host?: string;
  readonly port?: number;
  readonly data?: string;
  readonly seed?: 'demo' | 'empty';
  readonly profile?: string;
  readonly key?: string;
  readonly permission?: readonly string[];
  readonly rateLimit?: number;
  readonly trustedProxy?: readonly string[];
}

/** Runs the sandbox until the command is stopped. */
export async function sandbox(context: CommandContext, options: SandboxCommandOptions): Promise<ExitCode> {
  printNote(context, wideProxies(options));
  const key = options.key ?? 'sandbox-key';
  const server = await createSandbox({
    clock: systemClock,
    log: commandLog(context),
    keys: [{ key, permissions: options.permission ?? 'all' }],
    seed: options.seed ?? 'demo',
    rate: options.rateLimit === undefined ? null : { perMinute: options.rateLimit },
    trustedProxies: options.trustedProxy ?? [],
    ...(options.profile === undefined ? {} : { profile: profileOption(options.profile, context.cwd) }),
    ...(options.data === undefined ? {} : { file: options.data }),
  });
  try {
    const at = await server.listen({ host: options.host ?? '127.0.0.1', port: options.port ?? 8600 });
    const { url } = at;
    const profile = options.profile === undefined ? '' : ` TIDEMARK_PROFILE=${options.profile}`;
    const lines = [
      `sandbox listens on ${url}${elsewhere(at)}`,
      'try it in another terminal:',
      `  export TIDEMARK_BASE_URL=${url} TIDEMARK_API_KEY=${key}${profile}`,
      '  npx tidemark sync',
      'stop it with Ctrl-C',
    ];
    if (context.options.json === true) await printJson(context, { schema: 'tidemark.sandbox/1', url, key });
    else await print(context, `${lines.join('\n')}\n`);
    await aborted(context.signal);
  } finally {
    await server.close();
  }
  return EXIT.done;
}

/** How other machines reach a server that listens on every address: by the host name of this machine or container. */
export function elsewhere({ url, isEverywhere }: ListeningAt): string {
  return isEverywhere
    ? `, and on the other addresses of this machine, such as http://${hostname()}:${new URL(url).port}`
    : '';
}

/** Warnings about wide address ranges in `--trusted-proxy`, like those about the configuration. */
export function wideProxies({ trustedProxy = [] }: { readonly trustedProxy?: readonly string[] }): string[] {
  return wideNetworks(trustedProxy).map((line) => `--trusted-proxy: ${line}`);
}
