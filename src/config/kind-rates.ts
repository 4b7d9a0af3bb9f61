/** The limits that kinds have of their own, as one source's client keeps them. Pure. */
import type { Kind, KindRate, ResourceDefinition } from '../catalog/definition.ts';
import type { KindOverrides } from './override-options.ts';

/** One limit, for the requests of these kinds together; the first one gives it its name. */
export interface KindRateLimits extends KindRate {
  readonly kinds: readonly [Kind, ...Kind[]];
}

/**
 * The limits by kind. What is read one by one per parent counts with the parent's kind, unless it has a limit of its
 * own. Where the source's own limit is lifted by name (`rate.perMinute: 0`), so is what the profile assumes of kinds.
 * @param own the source's `definitions`: what stands there holds in any case
 */
export function kindRates(
  definitions: readonly ResourceDefinition[],
  own: KindOverrides,
  isLifted: (window: keyof KindRate) => boolean,
): KindRateLimits[] {
  const kindsOf = new Map<Kind, [Kind, ...Kind[]]>();
  for (const { kind, rate } of definitions) if (rate !== undefined) kindsOf.set(kind, [kind]);
  for (const { kind, rate, reading, discovery } of definitions) {
    if (rate !== undefined || reading !== 'each' || discovery.from === 'root') continue;
    kindsOf.get(discovery.from)?.push(kind);
  }
  return definitions.flatMap(({ kind, rate }) => {
    const kinds = kindsOf.get(kind);
    if (rate === undefined || kinds === undefined) return [];
    const limit = (window: keyof KindRate): number =>
      isLifted(window) && own[kind]?.rate?.[window] === undefined ? 0 : rate[window];
    const limits = { perMinute: limit('perMinute'), perHour: limit('perHour') };
    return limits.perMinute === 0 && limits.perHour === 0 ? [] : [{ kinds, ...limits }];
  });
}
