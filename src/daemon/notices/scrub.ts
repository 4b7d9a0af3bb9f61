/** Keeps the secrets of a channel out of what receivers and libraries say about it. */
import { neutralText } from '../../api/neutral-text.ts';
import { Secret } from '../../core/secret.ts';

/** Shorter parts of a URL are no secrets, and hiding them would hide words. */
const SHORTEST = 6;
/** A user's name. The password beside it is hidden however short it is. */
const SHORTEST_NAME = 4;

/** One short line without control characters, in which no secret stands, nor a part of a URL that could be one. */
export function scrubbed(text: string, secrets: readonly Secret[]): string {
  const parts = secrets.flatMap((secret) => partsOf(secret.reveal()));
  // Longest first: a part of what was already hidden is no longer there.
  return [...new Set(parts)]
    .sort((a, b) => b.length - a.length)
    .reduce((line, part) => neutralText(new Secret(part))(line), neutralText(new Secret(''))(text));
}

function partsOf(value: string): string[] {
  if (value === '') return [];
  const url = /^[a-z]+:\/\//i.test(value) ? URL.parse(value) : null;
  if (url === null) return [value];
  const inside = [url.pathname + url.search, ...url.pathname.split('/'), ...url.searchParams.values()];
  const both = (text: string): string[] => [text, decoded(text)];
  return [
    value,
    url.href,
    ...inside.filter(({ length }) => length >= SHORTEST),
    ...both(url.username).filter(({ length }) => length >= SHORTEST_NAME),
    ...both(url.password).filter((each) => each !== ''),
  ];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No percent-encoding after all: then the text is what it stands for.
    return text;
  }
}
