/** `tidemark config check`: the configuration as it was understood, and what to look at. */
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { readConfig } from '../wire.ts';
import { print } from './context.ts';
import type { CommandContext } from './context.ts';

/** All mistakes come as one error (exit 4); warnings are printed and do not fail. */
export async function configCheck(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options);
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.config_check/1',
      file: config.file,
      mirror: config.mirror,
      sources: config.sources.map(({ name, baseUrl, profile }) => ({
        name,
        base_url: baseUrl.href,
        profile,
      })),
      warnings: config.warnings,
    };
    await print(context, `${JSON.stringify(document)}\n`);
    return EXIT.done;
  }
  const lines = [
    `configuration: ${config.file ?? 'from the environment'}`,
    `mirror: ${config.mirror}`,
    ...config.sources.map(
      ({ name, baseUrl, profile, rate }) =>
        `source ${name}: ${baseUrl.href}, profile ${profile}, ${rateText(rate)}`,
    ),
    ...config.warnings.map((warning) => `warning: ${warning}`),
    config.warnings.length === 0 ? 'no mistakes' : 'no mistakes, see the warnings',
  ];
  await print(context, `${lines.join('\n')}\n`);
  return EXIT.done;
}

function rateText(rate: {
  readonly perMinute: number;
  readonly perHour: number;
  readonly concurrency: number;
}): string {
  const limit = (value: number, per: string): string =>
    value === 0 ? `no limit a ${per}` : `${value} a ${per}`;
  return `${limit(rate.perMinute, 'minute')}, ${limit(rate.perHour, 'hour')}, ${rate.concurrency} at a time`;
}
