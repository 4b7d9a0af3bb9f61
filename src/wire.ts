/**
 * The composition root: makes mirrors and clients from the configuration. Nothing else constructs them, so that a command, the
 * daemon and a test get the same objects. Clients are made in `wire-client.ts`, so that commands that only read the mirror start
 * without loading HTTP.
 */
import { hostname } from 'node:os';
import type { Config } from './config/config.ts';
import type { KeyNeed } from './config/checking.ts';
import { loadConfig, locateMirror } from './config/load.ts';
import {
  hasMirrorPerSource,
  type LoadedConfig,
  mirrorOf,
  onlyMirrorConfig,
  sourcesWithMirror,
} from './config/mirrors.ts';
import type { Actor } from './core/actor.ts';
import { systemClock } from './core/clock.ts';
import { TidemarkError } from './core/errors.ts';
import { didYouMean } from './core/suggest.ts';
import { compareFingerprints } from './diff/compare.ts';
import { type Mirror } from './mirror/mirror.ts';
import { openMirror } from './mirror/open.ts';
import { fingerprintsName, redactionWith } from './sync/redaction.ts';

interface ConfigChoice {
  readonly config?: string;
  readonly source?: readonly string[];
}

interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/**
 * The configuration with the selected sources, for a command that works on one mirror. Commands that only read the mirror need
 * no key: see `KeyNeed`.
 * @throws TidemarkError also `usage` if several sources with mirrors of their own are selected
 */
export function readConfig(
  surroundings: Surroundings,
  choice: ConfigChoice,
  keys: KeyNeed = 'required',
): Config {
  return onlyMirrorConfig(readLoadedConfig(surroundings, choice, keys));
}

/** Like `readConfig`, for any number of mirrors. */
export function readLoadedConfig(
  surroundings: Surroundings,
  choice: ConfigChoice,
  keys: KeyNeed = 'required',
): LoadedConfig {
  const config = loadConfig({
    ...(choice.config === undefined ? {} : { file: choice.config }),
    env: surroundings.env,
    cwd: surroundings.cwd,
    keys,
  });
  if (choice.source === undefined) return config;
  const names = config.sources.map(({ name }) => name);
  for (const asked of choice.source) {
    if (names.includes(asked)) continue;
    throw new TidemarkError('usage', `there is no source ${asked}${didYouMean(asked, names)}`, {
      hint: `configured are: ${names.join(', ')}`,
    });
  }
  return { ...config, sources: config.sources.filter(({ name }) => choice.source?.includes(name)) };
}

/**
 * The paths of the mirrors on which a daemon may run, even if the configuration has mistakes.
 * @throws TidemarkError if the mirror's path is wrong, or the file cannot be read
 */
export function locateMirrors(surroundings: Surroundings, choice: ConfigChoice): readonly string[] {
  const { config: file, source: asked } = choice;
  const { env, cwd } = surroundings;
  const mirrorPath = locateMirror({ ...(file === undefined ? {} : { file }), env, cwd });
  if (!hasMirrorPerSource({ mirrorPath })) return [mirrorPath];
  return (asked ?? sourcesWithMirror({ mirrorPath })).map((source) => mirrorOf({ mirrorPath }, source));
}

/**
 * Opens the mirror of this configuration, for reading (without a lock) or for writing (with the writer lock).
 * @param actor who writes; by default the user of this process
 * @param mayCreate false if creating an empty mirror would be a mistake
 * @throws TidemarkError `usage` if the actor's name contains a secret of the configuration
 */
export function openConfiguredMirror(
  config: Config,
  mode: 'read' | 'write',
  command: string,
  pid: number,
  actor?: Actor,
  mayCreate = true,
): Mirror {
  const who = actor === undefined ? {} : { actor };
  const secrets = mode === 'write' ? config.knownSecrets : [];
  const options = { mode, command, clock: systemClock, host: hostname(), pid, mayCreate, secrets, ...who };
  const mirror = openMirror(config.mirror, options);
  try {
    const key = mirror.acceptances.fingerprintKey();
    const redaction = redactionWith(key);
    compareFingerprints(fingerprintsName(key), (definition, text) => redaction.text(definition, text));
  } catch {
    // Without the key no secret equals its fingerprint; `verify` reports the damage.
  }
  return mirror;
}
