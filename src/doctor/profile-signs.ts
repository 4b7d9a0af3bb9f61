/** Which profile fits a service, by what its first answers show (wire-notes.md). Pure. */
import type { Kind } from '../catalog/kinds.ts';
import type { KindReach, SourceReach } from './source-reach.ts';

/** The shipped profile that matches, with the signs for it; `svc` without any. */
export function fittingProfile(reach: SourceReach): {
  readonly profile: 'svc' | 'posthog';
  readonly signs: readonly string[];
} {
  const signs = SIGNS.flatMap(({ kind, isShown, sign }) =>
    reach.kinds.some((row) => row.kind === kind && isShown(row)) ? [sign] : [],
  );
  return { profile: signs.length > 0 ? 'posthog' : 'svc', signs };
}

interface Sign {
  readonly kind: Kind;
  readonly isShown: (row: KindReach) => boolean;
  readonly sign: string;
}

const hasMember = (name: string) => (row: KindReach) =>
  row.probes.some(({ seen }) => seen.some(({ text }) => text.includes(`"${name}"`)));

const SIGNS: readonly Sign[] = [
  {
    kind: 'roles',
    isShown: ({ probes }) => probes.some(({ refusesQuery }) => refusesQuery),
    sign: 'roles answer only without a query string',
  },
  {
    kind: 'proxy_records',
    isShown: ({ probes }) => probes.some(({ shape }) => shape === 'array' || shape === 'results'),
    sign: 'proxy records come without an envelope',
  },
  {
    kind: 'session_recordings',
    isShown: ({ probes }) => probes.some(({ shape }) => shape === 'uncounted'),
    sign: 'recordings come without a count',
  },
  {
    kind: 'batch_exports',
    isShown: hasMember('hogql_query'),
    sign: 'batch exports have a field hogql_query',
  },
  {
    kind: 'plugins',
    isShown: hasMember('hog_function_migration_available'),
    sign: 'plugins have a field hog_function_migration_available',
  },
];
