/** Short forms for states, options and plans of the restore tests. */
import { CATALOG, scopeKey } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type ResourceDefinition, changedDefinition } from '../../src/catalog/resource-definition.ts';
import { applyProfile } from '../../src/config/profile.ts';
import { profileOption } from '../../src/config/profile.ts';
import { parseLossless } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import {
  type Plan,
  type PlanStep,
  type PlanInput,
  type PlanOptions,
  type PlanState,
} from '../../src/restore/plan/plan.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';

export const ORG = 'org-1';
export const NOW = Date.UTC(2026, 2, 1, 12);

export function lookup(rows: readonly ResourceDefinition[]): (kind: Kind) => ResourceDefinition {
  const byKind = new Map(rows.map((row) => [row.kind, row]));
  return (kind) => byKind.get(kind)!;
}
export const svc = lookup(applyProfile(CATALOG, profileOption('svc', '.'), {}));
export const posthog = lookup(applyProfile(CATALOG, profileOption('posthog', '.'), {}));
export const svcWritable = lookup(applyProfile(CATALOG, profileOption('svc-writable', '.'), {}));

/** The same for a deployment that has the documented paths only, as the sandbox: interface.md. */
export const onDocumentedPaths: typeof posthog = (kind) => {
  const definition = posthog(kind);
  return changedDefinition(definition, {
    restore: { ...definition.restore, alternativePaths: {} },
  });
};

/** A record of the one organization; `body` may be JSON text where digits matter. */
export function record(kind: Kind, id: string, body: object | string, scope?: Scope): ParsedRecord {
  const parsed = parseLossless(typeof body === 'string' ? body : JSON.stringify(body));
  const own = scope ?? (kind === 'organizations' ? {} : { organization_id: ORG });
  return { kind, scope: own, id, body: parsed };
}

export const organization = record('organizations', ORG, {
  id: ORG,
  name: 'Kittiwake',
  membership_level: 15,
  enforce_2fa: true,
});

export interface StateOptions {
  readonly unread?: readonly Kind[];
  readonly collections?: readonly { readonly kind: Kind; readonly scope: Scope }[];
  readonly at?: string;
}

/** A state whose collections are those of its records, and every one of the organization, all of them whole. */
export function stateOf(records: readonly ParsedRecord[], options: StateOptions = {}): PlanState {
  const collections = new Map<string, PlanState['collections'][number]>();
  const add = (kind: Kind, scope: Scope): void => {
    const isComplete = !(options.unread ?? []).includes(kind);
    collections.set(`${kind} ${scopeKey(scope)}`, { kind, scope, isComplete });
  };
  for (const { kind, scope } of CATALOG) {
    if (scope.length === 0) add(kind, {});
    else if (scope.length === 1 && scope[0] === 'organization_id') add(kind, { organization_id: ORG });
  }
  for (const { kind, scope } of [...records, ...(options.collections ?? [])]) add(kind, scope);
  for (const { kind, scope, id } of records) {
    if (kind === 'roles') add('role_memberships', { ...scope, role_id: id });
    if (kind === 'organizations') {
      for (const row of CATALOG) {
        if (row.scope.join() === 'organization_id') add(row.kind, { organization_id: id });
      }
    }
  }
  return {
    reference: { ref: 'test', ...(options.at === undefined ? {} : { at: options.at }) },
    records,
    collections: [...collections.values()],
  };
}

export const OPTIONS: PlanOptions = {
  prune: null,
  // design.md, Restore: 30 % of a kind with at least 10 records.
  limits: { maxShare: 0.3, minRecords: 10 },
  createOrganizations: false,
  inviteMissing: false,
  sendEmail: false,
  ownUserId: 'own-user',
  maxAgeMs: null,
  rate: { perMinute: 480, perHour: 4800 },
};

export type Changes = Partial<Omit<PlanInput, 'options' | 'desired' | 'live'>> & {
  readonly options?: Partial<PlanOptions>;
};

export function inputOf(
  desired: readonly ParsedRecord[] | PlanState,
  live: readonly ParsedRecord[] | PlanState,
  changes: Changes = {},
): PlanInput {
  const { options, ...rest } = changes;
  return {
    desired: 'records' in desired ? desired : stateOf(desired),
    live: 'records' in live ? live : stateOf(live),
    definitions: posthog,
    idMap: () => undefined,
    secrets: NO_SECRETS,
    now: NOW,
    ...rest,
    options: { ...OPTIONS, ...options },
  };
}

export function planOf(...args: Parameters<typeof inputOf>): Plan {
  return planRestore(inputOf(...args));
}

/** What a step does, as one line: `update batch_exports PATCH /api/… {"name":"x"}`. */
export function lines(plan: Plan): string[] {
  return plan.steps.map(line);
}
export function line({ action, kind, request, reason }: PlanStep): string {
  if (request === null) return `${action} ${kind}: ${reason}`;
  const body = request.body === null ? '' : ` ${JSON.stringify(request.body)}`;
  return `${action} ${kind} ${request.method} ${request.path.replace(`/api/organizations/${ORG}`, '…')}${body}`;
}

export function withBody(base: ParsedRecord, changes: object): ParsedRecord {
  return { ...base, body: { ...(base.body as object), ...changes } };
}
