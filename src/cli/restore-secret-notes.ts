/** Secrets that a plan lacks though the configuration has a place for them: what is wrong there. */
import type { Plan } from '../restore/plan.ts';
import type { RestoreSession } from './restore-session.ts';

/**
 * The configuration's own warnings about values of these kinds, a line each: without them a plan would ask for a rule that
 * is there already, where only its variable is not set.
 */
export function unsetSecrets(
  { config, source }: Pick<RestoreSession, 'config' | 'source'>,
  { steps }: Pick<Plan, 'steps'>,
): string[] {
  const kinds = new Set(steps.filter(({ needs }) => needs.length > 0).map(({ kind }) => kind));
  const index = config.configured.findIndex(({ name }) => name === source.name);
  const places = [...kinds].map((kind) => `sources[${index}].secrets.${kind}[`);
  return config.warnings.filter((warning) => places.some((place) => warning.includes(place)));
}
