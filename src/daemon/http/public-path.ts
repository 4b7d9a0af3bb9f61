/**
 * The path of `http.publicUrl`, below which people see the server. Requests have it or not, as the proxy in front keeps or strips it; the
 * links of answers always get it. It is removed and added next to the socket, so that no other code knows of it.
 */

/** `/tidemark` of `https://ops.example.com/tidemark`; empty without a path. */
export function publicPathOf(publicUrl: string | null | undefined): string {
  return URL.parse(publicUrl ?? '')?.pathname.replace(/\/+$/, '') ?? '';
}

/** The target of a request without the path. */
export function withoutPublicPath(target: string, path: string): string {
  if (path === '' || !target.startsWith(path)) return target;
  const rest = target.slice(path.length);
  if (rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : target;
}

/** Links in tags; the contents of records are escaped, and contain no tags. */
const LINKS = /(<(?:a|form|link)\b[^>]*? (?:href|action)=")(\/[^"]*)/g;

/** The answer with the path in its links, forms, redirects and cookies. */
export async function withPublicPath(answer: Response, path: string): Promise<Response> {
  if (path === '') return answer;
  // A link back to the page in `Referer` has the path already.
  const below = (place: string): string => (place.startsWith(`${path}/`) ? place : `${path}${place}`);
  const headers = new Headers(answer.headers);
  const location = headers.get('Location');
  if (location?.startsWith('/') === true) headers.set('Location', below(location));
  const refresh = headers.get('Refresh');
  if (refresh !== null) headers.set('Refresh', refresh.replace(/(?<=url=)\/.*/, below));
  headers.delete('Set-Cookie');
  for (const cookie of answer.headers.getSetCookie())
    headers.append('Set-Cookie', cookie.replace(/(?<=; Path=)\/(?=;|$)/, path));
  const { status } = answer;
  if (answer.body === null || headers.get('Content-Type')?.startsWith('text/html') !== true)
    return new Response(answer.body, { status, headers });
  const text = (await answer.text()).replace(LINKS, (_, tag: string, place: string) => tag + below(place));
  headers.delete('Content-Length');
  return new Response(text, { status, headers });
}
