/**
 * The environment of the command after a backup: ours, so that whatever a program such as restic or rclone reads is there,
 * without anything that the configuration takes for a secret.
 */
import type { Config } from '../config/config.ts';
import { secretsOf } from '../config/channels.ts';
import type { Secret } from '../core/secret.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** What must not reach the command. */
export interface Withheld {
  /** Names of the variables that secrets come from. */
  readonly variables: readonly string[];
  /** A variable with one of these values is not passed on either, whatever its name. */
  readonly secrets: readonly Secret[];
}

/** No program does without them, wherever else they are referred to. */
const ALWAYS = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** A value as short as these occurs in other ones by chance. */
const LEAST_CHARACTERS = 8;

/** All secrets of a configuration: of the sources, of the daemon's own doors, of notices and pings. */
export function withheldBy({ configured, http, replica, notices, pings, secretVariables }: Config): Withheld {
  const found = [
    ...configured.flatMap(({ apiKey, secrets }) => [
      apiKey,
      ...secrets.flatMap(({ values }) => Object.values(values)).filter(isLong),
    ]),
    ...[http.token, replica.token],
    ...notices.flatMap(secretsOf),
    ...pings.flatMap(({ start, success, fail }) => [start, success, fail]),
  ];
  return { variables: secretVariables, secrets: found.filter((secret) => secret !== null) };
}

function isLong(secret: Secret): boolean {
  return secret.reveal().length >= LEAST_CHARACTERS;
}

/** What is handed on of an environment. Tidemark's own variables are not. */
export function hookEnvironment(env: Environment, { variables, secrets }: Withheld): Record<string, string> {
  const values = secrets.map((secret) => secret.reveal()).filter((value) => value !== '');
  const handed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || name.startsWith('TIDEMARK_')) continue;
    if (variables.includes(name) && !ALWAYS.includes(name)) continue;
    if (values.some((secret) => value.includes(secret))) continue;
    handed[name] = value;
  }
  return handed;
}
