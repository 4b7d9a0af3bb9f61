/** What `tidemark status` says of a full disk. */
import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { type Health, worst } from '../daemon/health/health.ts';
import { fullDisk, spaceBeside } from '../doctor/disk.ts';

/** On a full disk nothing can be recorded, so that the mirror does not tell why syncs fail. */
export function withDisk(health: Health, path: string): Health {
  const full = fullDisk(path, spaceBeside(path));
  if (full === null) return health;
  const reason = { code: 'daemon_problem', state: 'degraded', since: null, ...full } as const;
  return { ...health, state: worst([health, reason]), reasons: [reason, ...health.reasons] };
}

/** Mirrors in one directory have one reason. */
export function diskReasons(configs: readonly Config[]): string[] {
  const byDirectory = new Map(configs.map(({ mirror }) => [dirname(mirror), mirror]));
  return [...byDirectory.values()].flatMap((path) => {
    const full = fullDisk(path, spaceBeside(path));
    return full === null ? [] : [full.message, `  → ${full.hint}`];
  });
}
