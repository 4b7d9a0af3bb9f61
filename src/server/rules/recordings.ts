/** Session recordings and their sharing: read, and recordings removed (interface.md: Session recordings). */
import { createHash } from 'node:crypto';
import type { KindRules } from './kind-rules.ts';

export const sessionRecordings: KindRules = {
  order: { by: 'newest', field: 'start_time' },
  request: null,
  remove: (transaction, target) => transaction.discard('recording_sharing', target.scope, target.id),
};

export const recordingSharing: KindRules = {
  order: { by: 'creation' },
  request: null,
  // Every recording has one; those that nobody shared are worked out, since a project may hold a hundred thousand.
  implied: (reading, scope, id) => {
    const recording = reading.body('session_recordings', scope, id);
    if (recording === undefined) return undefined;
    return {
      created_at: recording['start_time'] ?? null,
      enabled: false,
      access_token: createHash('sha256').update(`sharing ${id}`).digest('base64url').slice(0, 30),
    };
  },
};
