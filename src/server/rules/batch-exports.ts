/** Batch exports (interface.md: Batch export, States and transitions; wire-notes.md, Secrets and Restore). */
import { batchExports as batchExportsRow } from '../../catalog/kinds/batch-exports.ts';
import type { Scope } from '../../catalog/definition.ts';
import { owned } from '../../catalog/fields.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import { valueText } from '../value-text.ts';
import { invalid } from '../wire-error.ts';
import type { KindRules, Target, Transaction } from './kind-rules.ts';
import { acceptBody, checkType, type RequestRules } from './request-rules.ts';

const request: RequestRules = {
  fields: batchExportsRow.fields.filter((field) => field.isWritable),
  required: ['name', 'destination', 'interval'],
  notNull: ['model', 'paused'],
  checks: { destination: checkDestination },
};

function checkDestination(value: JsonValue, attr: string): void {
  if (!isJsonObject(value)) return;
  const type = getOwn(value, 'type');
  if (type === undefined) throw invalid(`${attr}__type`, 'required', 'This field is required.');
  checkType({ type: 'string', values: null }, type, `${attr}__type`);
  if (type === '') throw invalid(`${attr}__type`, 'blank', 'This field may not be blank.');
  const config = getOwn(value, 'config');
  if (config !== undefined) checkType({ type: 'object', values: null }, config, `${attr}__config`);
}

// The service shows only the latest runs.
const LATEST_RUNS = 10;

export const batchExports: KindRules = {
  order: { by: 'newest', field: 'created_at' },
  // team_id is the only field that is marked neither writable nor response only: it is accepted on creation, if it is a
  // project of the organization.
  request: {
    ...request,
    fields: [owned('team_id', 'integer', 'Project whose data is exported.'), ...request.fields],
  },
  create: (transaction, scope, accepted) => {
    const isPaused = accepted['paused'] === true;
    return {
      body: withSchema({
        id: transaction.uuid(),
        team_id: teamFor(transaction, scope, accepted['team_id']),
        name: accepted['name'] ?? '',
        model: accepted['model'] ?? 'events',
        destination: { config: {}, ...asObject(accepted['destination']) },
        interval: accepted['interval'] ?? '',
        paused: isPaused,
        created_at: transaction.nowText,
        last_updated_at: transaction.nowText,
        last_paused_at: isPaused ? transaction.nowText : null,
        start_at: accepted['start_at'] ?? null,
        end_at: accepted['end_at'] ?? null,
        latest_runs: [],
        svcql_query: accepted['svcql_query'] ?? null,
        schema: null,
        ...('last_paused_at' in accepted ? { last_paused_at: accepted['last_paused_at'] ?? null } : {}),
      }),
    };
  },
  update: (transaction, target, accepted) => {
    // The project of an export never changes: only creation accepts team_id.
    const changes = Object.fromEntries(Object.entries(accepted).filter(([name]) => name !== 'team_id'));
    const isNewlyPaused = changes['paused'] === true && target.body['paused'] !== true;
    const pausedAt = isNewlyPaused ? { last_paused_at: transaction.nowText } : {};
    const destination = changes['destination'];
    const merged = isJsonObject(destination)
      ? { destination: mergeDestination(target.body['destination'], destination) }
      : {};
    const changed = {
      ...target.body,
      ...pausedAt,
      ...changes,
      ...merged,
      last_updated_at: transaction.nowText,
    };
    return 'svcql_query' in changes ? withSchema(changed) : changed;
  },
  recordActions: {
    pause: (transaction, target, body) => {
      acceptBody(request, body, 'update');
      if (target.body['paused'] !== true) {
        setPaused(transaction, target, { paused: true, last_paused_at: transaction.nowText });
      }
      return 'nothing';
    },
    unpause: (transaction, target, body) => {
      acceptBody(request, body, 'update');
      if (target.body['paused'] !== false) setPaused(transaction, target, { paused: false });
      return 'nothing';
    },
    backfill: (transaction, target, body) => {
      acceptBody(request, body, 'update');
      const runs = target.body['latest_runs'];
      transaction.save('batch_exports', target.scope, {
        ...target.body,
        latest_runs: [newRun(transaction, target.id), ...(Array.isArray(runs) ? runs : [])].slice(
          0,
          LATEST_RUNS,
        ),
      });
      return 'nothing';
    },
  },
};

function setPaused(transaction: Transaction, target: Target, change: JsonObject): void {
  transaction.save('batch_exports', target.scope, {
    ...target.body,
    ...change,
    last_updated_at: transaction.nowText,
  });
}

/** The given project; by default the oldest of the organization, or null if it has none. */
function teamFor(transaction: Transaction, scope: Scope, given: JsonValue | undefined): JsonValue {
  const ids = transaction.bodies('projects', scope).map((project) => project['id'] ?? null);
  if (given === undefined || given === null) return ids[0] ?? null;
  if (!ids.some((id) => valueText(id) === valueText(given))) {
    throw invalid('team_id', 'does_not_exist', 'Project does not exist on this organization.');
  }
  return given;
}

/** wire-notes.md, Secrets: config is merged over the stored one, so that omitted secrets stay, unless the type changes. */
function mergeDestination(stored: JsonValue | undefined, sent: JsonObject): JsonObject {
  const before = asObject(stored);
  const isSameType = before['type'] === sent['type'];
  const config = { ...(isSameType ? asObject(before['config']) : {}), ...asObject(sent['config']) };
  return { ...(isSameType ? before : {}), ...sent, config };
}

function withSchema(batchExport: JsonObject): JsonObject {
  const query = batchExport['svcql_query'] ?? null;
  return { ...batchExport, schema: query === null ? null : { svcql_query: query, fields: [] } };
}

function newRun(transaction: Transaction, batchExportId: string): JsonObject {
  return {
    id: transaction.uuid(),
    status: 'Starting',
    records_completed: null,
    latest_error: null,
    data_interval_start: null,
    data_interval_end: transaction.nowText,
    cursor: null,
    created_at: transaction.nowText,
    finished_at: null,
    last_updated_at: transaction.nowText,
    records_total_count: null,
    batch_export: batchExportId,
  };
}

function asObject(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
