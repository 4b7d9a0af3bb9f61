/**
 * The path of `http.publicUrl`, below which people see the server. Requests come with it or without it, as the proxy in front keeps or
 * strips it; whatever an answer leads to has it. Both are done at the socket, so that nothing behind it knows of the path.
 */

/** `/tidemark` of `https://ops.example.com/tidemark`; empty without a path. */
export function publicPathOf(publicUrl: string | null | undefined): string {
  return URL.parse(publicUrl ?? '')?.pathname.replace(/\/+$/, '') ?? '';
}

/** The target of a request, as the server has it. */
export function withoutPublicPath(target: string, path: string): string {
  if (path === '' || !target.startsWith(path)) return target;
  const rest = target.slice(path.length);
  if (rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : target;
}

/** In tags alone: what records hold is escaped, and cannot be one. */
const LINKS = /(<(?:a|form|link)\b[^>]*? (?:href|action)=")(\/[^"]*)/g;

/** An answer as it is sent: its links, forms, redirects and cookies are those of the path. */
export async function withPublicPath(answer: Response, path: string): Promise<Response> {
  if (path === '') return answer;
  // One that is there already is of a page that the browser named (`Referer`).
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
