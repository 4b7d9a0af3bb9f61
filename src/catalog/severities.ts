/** How much a change matters, in order. */
import type { Severity } from './definition.ts';

/** From what must be seen at once to what can wait. */
export const SEVERITIES = ['critical', 'high', 'medium', 'low'] as const satisfies readonly Severity[];
