/** What a configuration has of secrets: no command gets them, and no report shows them. */
import { LEAST_CHARACTERS } from '../catalog/masks.ts';
import type { Secret } from '../core/secret.ts';
import { secretsOf } from './channels.ts';
import type { Config } from './config.ts';

/** All secrets of a configuration: of the sources, of the daemon's own doors, of notices and pings. */
export function knownSecrets({
  configured,
  http,
  replica,
  notices,
  pings,
}: Omit<Config, 'secretVariables'>): Secret[] {
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

function isLong(secret: Secret): boolean {
  return secret.reveal().length >= LEAST_CHARACTERS;
}
