/** What a configuration has of secrets: no command gets them, and no report shows them. */
import { LEAST_CHARACTERS, recordedText } from '../catalog/masks.ts';
import type { Actor } from '../core/actor.ts';
import type { Secret } from '../core/secret.ts';
import { secretsOf } from './channels.ts';
import type { Config } from './config.ts';

/** The parts of a configuration that have secrets. */
type Configured = Pick<Config, 'configured' | 'http' | 'replica' | 'notices' | 'pings'>;

/** All secrets of a configuration: of the sources, of the daemon's own doors, of notices and pings. */
export function knownSecrets({ configured, http, replica, notices, pings }: Configured): Secret[] {
  const found = [
    ...configured.flatMap(({ apiKey, secrets, git }) => [
      apiKey,
      git?.token ?? null,
      ...secrets.flatMap(({ values }) => Object.values(values)).filter(isLong),
    ]),
    ...[http.token, http.triggerToken, replica.token],
    ...notices.flatMap(secretsOf),
    ...pings.flatMap(({ start, success, fail }) => [start, success, fail]),
  ];
  return found.filter((secret) => secret !== null);
}

/**
 * Nobody is called like a key: a name is recorded for good, and shown.
 * @throws TidemarkError `usage` where a name that somebody gave holds a secret of the configuration
 */
export function requireNameWithoutSecret(config: Configured, { by, via }: Actor): void {
  if (by !== via) recordedText(by, 'the name of a person', knownSecrets(config));
}

function isLong(secret: Secret): boolean {
  return secret.reveal().length >= LEAST_CHARACTERS;
}
