/** The secrets of a configuration: no program gets them, and no report shows them. */
import { recordedText, shownText } from '../catalog/masks.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import type { Actor } from '../core/actor.ts';
import { isLong, type Secret, searchFor } from '../core/secret.ts';
import { secretsOf } from './channels.ts';
import type { Config, SourceConfig } from './config.ts';

/** The parts of a configuration that have secrets. */
type Configured = Pick<Config, 'configured' | 'http' | 'replica' | 'notices' | 'pings'>;

/** All secrets of a configuration: of the sources, of the daemon's HTTP server, of notices and pings. */
export function secretsIn({ configured, http, replica, notices, pings }: Configured): Secret[] {
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
  return found.filter((secret) => secret !== null).filter((secret) => secret.reveal() !== '');
}

/** Returns a function that adds the secrets to mask to definitions. Its results are shared by sources with the same definitions. */
export function withholding(
  secrets: readonly Secret[],
): (definitions: readonly ResourceDefinition[]) => readonly ResourceDefinition[] {
  const withheld = searchFor(secrets);
  const made = new Map<readonly ResourceDefinition[], readonly ResourceDefinition[]>();
  return (definitions) => {
    if (withheld === null) return definitions;
    const known = made.get(definitions);
    if (known !== undefined) return known;
    const own = definitions.map((definition) => changedDefinition(definition, { withheld }));
    made.set(definitions, own);
    return own;
  };
}

/** A message that may contain names of records, or user input, without the secrets of the configuration. */
export function maskedMessage(text: string, secrets: readonly Secret[]): string {
  const withheld = searchFor(secrets);
  return withheld === null ? text : shownText(text, { withheld });
}

/**
 * Refuses a person's name that contains a secret, since names are recorded permanently and shown.
 * @throws TidemarkError `usage` if the given name contains a secret of the configuration
 */
export function requireNameWithoutSecret(
  { knownSecrets }: Pick<Config, 'knownSecrets'>,
  { by, via }: Actor,
): void {
  if (by !== via) recordedText(by, 'the name of a person', knownSecrets);
}

/** True for a name that is the key of a source, or has the form of a key: it was pasted into the wrong option. */
export function isKey(name: string, sources: readonly Pick<SourceConfig, 'apiKey'>[]): boolean {
  const isOwn = sources.some(({ apiKey }) => isLong(apiKey) && apiKey.reveal() === name);
  return isOwn || shownText(name, {}) !== name;
}
