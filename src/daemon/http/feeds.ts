/** Activity kinds, listed separately: their records are not configuration, and there are many. */
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { activityKinds } from '../../catalog/activity-kinds.ts';

export const FEEDS: readonly Kind[] = activityKinds();

/** All others. */
export const CONFIGURED_KINDS: readonly Kind[] = KINDS.filter((kind) => !FEEDS.includes(kind));
