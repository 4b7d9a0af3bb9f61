/** `tidemark.status/1`: the status of every source as one JSON document. */
import { sourceDocument } from '../state/status-document.ts';
import { nextSteps } from './next-steps.ts';
import type { SourceStatus } from './source-status.ts';

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
export function statusDocument(mirror: string, sources: readonly SourceStatus[]): object {
  return {
    schema: 'tidemark.status/1',
    mirror,
    sources: sources.map((status) => sourceDocument(status, nextSteps(status, sources.length > 1))),
  };
}
