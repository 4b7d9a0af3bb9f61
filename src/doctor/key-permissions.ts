/** What the key may do, where the deployment tells (wire-notes.md, Errors). */
import type { ProbeClient } from '../api/probe-client.ts';
import { asTidemarkError, isLocalTrouble } from '../core/errors.ts';

/** The permissions as the service names them, `*` for all; null where it does not tell. */
export async function keyPermissions(
  client: ProbeClient,
  keyPath: string | undefined,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  if (keyPath === undefined) return null;
  try {
    const text = await client.text(`/${keyPath.replace(/^\/+/, '')}`, signal);
    return text === null ? null : permissionsIn(JSON.parse(text));
  } catch (error) {
    signal.throwIfAborted();
    // Only a courtesy of some deployments: what it says badly, or not at all, stops nothing.
    if (!(error instanceof SyntaxError) && isLocalTrouble(asTidemarkError(error).code)) throw error;
    return null;
  }
}

function permissionsIn(body: unknown): readonly string[] | null {
  if (typeof body !== 'object' || body === null || !('scopes' in body)) return null;
  const { scopes } = body;
  return Array.isArray(scopes) && scopes.every((each) => typeof each === 'string') ? scopes : null;
}
