/**
 * What the GET operations beside list and retrieve answer. interface.md marks most "200 none"; where it shows no answer
 * at all, docs/sandbox.md lists the choice.
 */
import type { Operation } from '../catalog/definition.ts';

/** By the operation's path; the rest answers 200 without a body. */
const BODY_BY_PATH: Readonly<Record<string, string>> = {
  '/api/organizations/:organization_id/projects/:id/activity/':
    '{"count":0,"next":null,"previous":null,"results":[]}',
  '/api/organizations/:organization_id/projects/:id/is_generating_demo_data/':
    '{"is_generating_demo_data":false}',
};

/** JSON text of the answer, or null for an empty one. */
export function readingAnswer(operation: Operation): string | null {
  return BODY_BY_PATH[operation.path] ?? null;
}
