/** Who may read the replica: holders of one of its own tokens; without any, callers on this machine. */
import { isLoopback } from '../../config/source.ts';
import type { Secret } from '../../core/secret.ts';
import { type AccessKey, type Authenticate, createAuthenticator } from '../authorization.ts';
import { permissionDenied } from '../wire-error.ts';

const ANYBODY_HERE: AccessKey = { key: '', permissions: 'all' };

/**
 * With tokens: `Authorization: Bearer TOKEN`, nothing else. Without: whoever addresses it as this machine, so that a web
 * page elsewhere, whose name was made to lead here, reads nothing.
 */
export function createCallers(tokens: readonly Secret[]): Authenticate {
  if (tokens.length > 0) {
    return createAuthenticator(tokens.map((token) => ({ key: token.reveal(), permissions: 'all' })));
  }
  return ({ host }) => {
    if (host === undefined || isLoopback(host.replace(/:\d+$/, ''))) return ANYBODY_HERE;
    throw permissionDenied(
      'This replica has no tokens: it only answers requests addressed to 127.0.0.1 or localhost.',
    );
  };
}
