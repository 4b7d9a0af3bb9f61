/**
 * A service in memory that takes a plan's requests as sent (path and JSON text), with the refusals that wire-notes.md
 * names: unique names, unverified domains, roles that are not renamed to their own name.
 */
import type { Scope } from '../../src/catalog/definition.ts';
import type { ResourceDefinition } from '../../src/catalog/resource-definition.ts';
import { type JsonObject, type JsonValue, isJsonObject, parseLossless } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { idText } from '../../src/diff/match-records.ts';
import { filledBody, filledPath } from '../../src/restore/apply/ready-step.ts';
import { type Plan, type PlanStep, isExecutable, type PlanInput } from '../../src/restore/plan/plan.ts';
import { managedDigest, naturalKeyDigest } from '../../src/restore/records.ts';

export interface Sent {
  readonly step: PlanStep;
  readonly body: JsonValue | null;
}

export interface Applied {
  readonly live: ParsedRecord[];
  readonly sent: readonly Sent[];
  /** Ids of live records that requests touched or made. */
  readonly touched: ReadonlySet<string>;
}

/** By kind, the field that is unique: domains over the whole instance, the others in their collection. */
const UNIQUE: Readonly<Record<string, string>> = {
  roles: 'name',
  domains: 'domain',
  proxy_records: 'domain',
};

export function applyPlan(plan: Plan, input: PlanInput): Applied {
  const live = input.live.records.map((each) => ({ ...each }));
  const ids = new Map<number, string>();
  const sent: Sent[] = [];
  const touched = new Set<string>();
  let serial = 1000;
  const done = new Set<number>();
  for (const step of plan.steps) {
    if (step.request === null || !isExecutable(step)) continue;
    for (const need of step.after) if (!done.has(need)) throw new Error(`step ${step.n} goes before ${need}`);
    const { request } = step;
    const definition = input.definitions(request.kind);
    checkPrecondition(step, definition, live);
    const desired = input.desired.records.find(
      (each) => each.id === step.desired?.id && each.kind === step.desired.kind,
    );
    const path = filledPath(request, { idOf: (n) => ids.get(n) });
    const text = filledBody(request, {
      idOf: (n) => ids.get(n),
      secret: (pointer) => (desired === undefined ? undefined : input.secrets.find(desired, pointer)),
      desired: desired?.body ?? null,
    });
    const body = text === null ? null : parseLossless(text);
    sent.push({ step, body });
    const { scope, id } = addressed(definition, path, request.template);
    const at = live.findIndex(
      (each) => each.kind === request.kind && each.id === id && sameScope(each.scope, scope),
    );
    if (request.role === 'create') {
      const newId = definition.idType === 'integer' ? String((serial += 1)) : `new-${(serial += 1)}`;
      const made = created(definition, scope, newId, body as JsonObject, live);
      refuseTwins(made, live);
      live.push(made);
      ids.set(step.n, newId);
      touched.add(newId);
    } else {
      if (at === -1) throw new Error(`404 ${path}`);
      touched.add(id);
      const current = live[at]!;
      const before = current.body as JsonObject;
      if (request.role === 'remove') {
        if (live.some((each) => each.kind === 'role_memberships' && each.scope.role_id === id))
          throw new Error('a role went before its memberships');
        live.splice(at, 1);
      } else if (request.role === 'act') {
        const paused = request.act === 'pause';
        live[at] = {
          ...current,
          body: { ...before, paused, ...(paused ? { last_paused_at: 'moved by pausing' } : {}) },
        };
      } else {
        if (
          request.kind === 'domains' &&
          before['is_verified'] !== true &&
          (body as JsonObject)['sso_enforcement']
        )
          throw new Error('400 not verified');
        const after = { ...current, body: { ...before, ...(body as JsonObject) } };
        live.splice(at, 1);
        refuseTwins(after, live);
        live.splice(at, 0, after);
      }
    }
    done.add(step.n);
  }
  return { live, sent, touched };
}

function checkPrecondition(
  step: PlanStep,
  definition: ResourceDefinition,
  live: readonly ParsedRecord[],
): void {
  const { precondition } = step;
  if (precondition === null) throw new Error(`step ${step.n} has no precondition`);
  if (precondition.state === 'present') {
    const now = live.find(
      (each) => each.kind === step.kind && each.id === precondition.id && sameScope(each.scope, step.scope),
    );
    if (now === undefined || managedDigest(definition, now.body) !== precondition.digest)
      throw new Error(`live moved under step ${step.n}`);
  } else if (precondition.state === 'absent' && precondition.digest !== null && step.kind !== 'invites') {
    const counterpart = live.find(
      (each) =>
        each.kind === step.kind &&
        sameScope(each.scope, step.scope) &&
        naturalKeyDigest(definition, each.body) === precondition.digest,
    );
    if (counterpart !== undefined) throw new Error(`step ${step.n} would make a double of ${counterpart.id}`);
  }
}

function sameScope(a: Scope, b: Scope): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function addressed(
  definition: ResourceDefinition,
  path: string,
  template: string,
): { scope: Scope; id: string } {
  const names = [...template.matchAll(/:([a-z_]+)/g)].map((match) => match[1]!);
  const pattern = new RegExp(`^${template.replaceAll(/:[a-z_]+/g, '([^/]+)')}$`);
  const values = pattern.exec(path)!.slice(1).map(decodeURIComponent);
  const all = Object.fromEntries(names.map((name, index) => [name, values[index]!]));
  const scope = Object.fromEntries(definition.scope.map((name) => [name, all[name]!]));
  return { scope, id: all[definition.idParameter] ?? '' };
}

function created(
  definition: ResourceDefinition,
  scope: Scope,
  id: string,
  body: JsonObject,
  live: readonly ParsedRecord[],
): ParsedRecord {
  const { kind } = definition;
  const uuid = body['user_uuid'];
  const kept = { ...body };
  for (const name of ['user_uuid', 'send_email']) Reflect.deleteProperty(kept, name);
  const extra: JsonObject = {};
  if (kind === 'pipeline_destinations') extra['organization_id'] = scope.organization_id!;
  if (kind === 'domains') Object.assign(extra, { is_verified: false, sso_enforcement: '' });
  if (kind === 'role_memberships') {
    const member = live.find((each) => each.kind === 'members' && each.id === uuid);
    if (member === undefined) throw new Error('400 no such member');
    if (!live.some((each) => each.kind === 'roles' && each.id === scope.role_id))
      throw new Error('404 no such role');
    Object.assign(extra, { user: (member.body as JsonObject)['user'], role_id: scope.role_id });
  }
  if (
    kind !== 'organizations' &&
    !live.some((each) => each.kind === 'organizations' && each.id === scope.organization_id)
  )
    throw new Error('404 no such organization');
  const team = kept['team_id'];
  if (team !== undefined && !live.some((each) => each.kind === 'projects' && each.id === idText(team)))
    throw new Error('400 no such project');
  const ownId = definition.idType === 'integer' ? Number(id) : id;
  return { kind, scope, id, body: { ...kept, ...extra, id: ownId, created_at: 'now' } };
}

function refuseTwins(record: ParsedRecord, live: readonly ParsedRecord[]): void {
  const field = UNIQUE[record.kind];
  if (field === undefined) return;
  const name = (each: ParsedRecord): string | undefined =>
    isJsonObject(each.body) ? idText(each.body[field] ?? null).toLowerCase() : undefined;
  const counterpart = live.find(
    (each) =>
      each.kind === record.kind &&
      (record.kind === 'domains' || sameScope(each.scope, record.scope)) &&
      name(each) === name(record),
  );
  if (counterpart !== undefined)
    throw new Error(`400 ${record.kind} ${JSON.stringify(name(record))} is taken`);
}
