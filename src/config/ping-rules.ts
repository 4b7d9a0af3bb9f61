/** `pings[]`: URLs of a dead man's switch, which raises the alarm when they are not called. */
import * as z from 'zod';
import type { Secret } from '../core/secret.ts';
import type { Checking } from './checking.ts';
import { unsetLines, urlSecret } from './notice-secrets.ts';
import type { Path } from './tree.ts';
import { structured } from './value-types.ts';

const METHODS = ['POST', 'GET'] as const;

const TEXT = z.string().min(1);

const PING = z.strictObject({
  sources: z.array(TEXT).min(1).optional(),
  method: z.enum(METHODS).optional(),
  start: TEXT.optional(),
  startFile: TEXT.optional(),
  success: TEXT.optional(),
  successFile: TEXT.optional(),
  fail: TEXT.optional(),
  failFile: TEXT.optional(),
});

type ParsedPing = z.output<typeof PING>;

export const PINGS = structured<readonly ParsedPing[]>(
  'list of pings',
  'a list of {sources, method, start or startFile, success or successFile, fail or failFile}: method POST or GET, at least one URL',
  z.array(PING),
);

export interface PingConfig {
  /** Null for all of them. */
  readonly sources: readonly string[] | null;
  readonly method: (typeof METHODS)[number];
  /** Called when a run begins, when all of it was complete, and when it was not; null where there is none. */
  readonly start: Secret | null;
  readonly success: Secret | null;
  readonly fail: Secret | null;
  /** Why some of its URLs cannot be called; null if all can. */
  readonly problem: string | null;
}

/** The pings with their URLs read; mistakes are added, a URL that is not there makes a `problem`. */
export function checkPings(
  checking: Checking,
  parsed: readonly ParsedPing[],
  sources: readonly string[],
): PingConfig[] {
  const { tree, mistakes } = checking;
  return parsed.map((ping, index) => {
    const at: Path = ['pings', index];
    for (const source of ping.sources ?? []) {
      if (!sources.includes(source))
        mistakes.add(
          tree,
          [...at, 'sources'],
          `expected names of sources; ${JSON.stringify(source.slice(0, 60))} is none`,
        );
    }
    const problems = unsetLines(checking, at);
    const urlOf = (key: 'start' | 'success' | 'fail'): Secret | null => {
      const given = {
        text: ping[key],
        file: ping[`${key}File`],
        isNeeded: false,
        schemes: ['http:', 'https:'],
      };
      return urlSecret(checking, at, key, given, problems);
    };
    const urls = { start: urlOf('start'), success: urlOf('success'), fail: urlOf('fail') };
    const isEmpty = Object.values(urls).every((url) => url === null);
    if (isEmpty && problems.length === 0 && !mistakes.covers(tree, at) && isNothingGiven(ping))
      mistakes.add(tree, at, 'expected at least one of start, success and fail');
    return {
      sources: ping.sources ?? null,
      method: ping.method ?? 'POST',
      ...urls,
      problem: problems.length === 0 ? null : problems.join('; '),
    };
  });
}

function isNothingGiven(ping: ParsedPing): boolean {
  return [ping.start, ping.startFile, ping.success, ping.successFile, ping.fail, ping.failFile].every(
    (given) => given === undefined,
  );
}
