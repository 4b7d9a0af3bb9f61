/** What a look at a source found: the result of `reach.ts`, and what problems, texts and estimates are read from. */
import type { TidemarkError } from '../core/errors.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { ClockSkew } from './clock-skew.ts';
import type { CollectionProbe, ProbeState } from './collection-probe.ts';
import type { PageCap } from './page-cap.ts';

/** Organizations, projects and roles that are looked below, each. */
export const MOST_SCOPES = 5;

/** One kind in one organization; `organization` null for the root's own list and for projects of no known one. */
export interface KindReach {
  readonly organization: string | null;
  readonly kind: Kind;
  readonly definition: ResourceDefinition;
  /** The gravest of its collections. */
  readonly state: ProbeState;
  readonly probes: readonly CollectionProbe[];
  /** Collections that there are, as far as is known; more than `probes` where not all were looked at. */
  readonly collections: number;
}

export interface SourceReach {
  readonly source: SourceConfig;
  readonly organizations: readonly { readonly id: string; readonly name: string | null }[];
  /** Organizations that the list says there are; null where it does not. */
  readonly organizationCount: number | null;
  readonly kinds: readonly KindReach[];
  /** What made going on idle: a refused key, a host that does not answer. */
  readonly fatal: TidemarkError | null;
  readonly skew: ClockSkew | null;
  readonly pageCap: PageCap | null;
  /** What the key holds, where the service tells; `*` is everything. */
  readonly permissions: readonly string[] | null;
  readonly requests: number;
  /** Of answer bodies. */
  readonly bytes: number;
  /** Milliseconds from the first request to the last answer. */
  readonly tookMs: number;
}
