/**
 * Operations of the API whose responses are not part of the mirror, each with its reason. A test checks that every
 * method and path of interface.md is a list, retrieve or write of a kind, or listed here.
 */
import type { Method } from './definition.ts';

interface NotMirrored {
  readonly method: Method;
  /** The name of the action in the catalog (`Operation.action`). */
  readonly action: string;
  readonly reason: string;
}

export const NOT_MIRRORED: readonly NotMirrored[] = [
  {
    method: 'GET',
    action: 'logs',
    reason: 'documented without a body; a log is activity, not configuration',
  },
  {
    method: 'GET',
    action: 'activity',
    reason: 'documented without a body; a log is activity, not configuration',
  },
  {
    method: 'GET',
    action: 'check_for_updates',
    reason: 'asks another service for versions; not configuration',
  },
  {
    method: 'GET',
    action: 'source',
    reason: 'documented without a body: there is nothing to store',
  },
  { method: 'GET', action: 'exports_unsubscribe_configs', reason: 'documented without a body' },
  { method: 'GET', action: 'repository', reason: 'the catalogue of the maker, not of the organization' },
  { method: 'GET', action: 'unused', reason: 'derived from the components, which are mirrored' },
  { method: 'GET', action: 'is_generating_demo_data', reason: 'progress of a task, not configuration' },
  { method: 'POST', action: 'backfill', reason: 'starts a transfer of data; never called' },
  { method: 'POST', action: 'pause', reason: 'its effect is the field `paused`, which is mirrored' },
  { method: 'POST', action: 'unpause', reason: 'its effect is the field `paused`, which is mirrored' },
  { method: 'POST', action: 'verify', reason: 'its effect is the field `is_verified`, which is mirrored' },
  { method: 'POST', action: 'bulk', reason: 'creates invites, which are mirrored one by one' },
  { method: 'PATCH', action: 'update_source', reason: 'replaces code; no payload shown, never called' },
  { method: 'POST', action: 'upgrade', reason: 'moves to another version of code; never called' },
  { method: 'PATCH', action: 'reset_token', reason: 'breaks every client that uses the token; never called' },
];
