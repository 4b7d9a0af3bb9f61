/** What servers put in place of a secret (wire-notes.md, Secrets). Written back, it would destroy the real one. */
import type { KindRow } from './kinds.ts';

/** Replaces a secret in reports and plans. Old and new look the same: the report says that they differ. */
export const MASK = '[secret]';

/** A text that matches one of these is a mask, not a value. */
const MASK_PATTERNS: readonly RegExp[] = [
  // "********", "••••••••", "xxxxxxxx" with or without the last characters of the real value.
  /^[*•●]{3,}.{0,8}$/u,
  /^[xX]{8,}.{0,4}$/,
  // "**************** … SECRET FIELD ****************"
  /^\*+.*secret field.*\*+$/i,
  /^[[<({]?(?:redacted|masked|hidden|secret|filtered|omitted)(?:[:=][^\])}>]*)?[\])}>]$/i,
];

/** True for a text that replaces a secret. */
export function isMask(text: string, patterns: readonly RegExp[] = MASK_PATTERNS): boolean {
  return patterns.some((pattern) => pattern.test(text));
}

/**
 * Names that objects of no fixed shape (a destination's `config`) give to secrets, whatever the letter case and the
 * separators: the catalog lists those that are documented, and a service may have others.
 */
const SECRET_NAME =
  /(?:^|_)(?:password|passwd|passphrase|pwd|secret|secret_?key|private_?key|api_?key|access_?key|signing_?key|encryption_?key|shared_?key|account_?key|token|credentials?|authorization(?:_header)?|bearer|jwt|(?:db|ftp|smtp|user)_?pass|cookie|connection_?(?:string|uri|url)|dsn|webhook_?url)$/;

/** Each alternative of `SECRET_NAME` holds one of these. Most names hold none, and such an expression takes 0.4 ms to compile. */
const SECRET_WORD =
  /pass|pwd|secret|key|token|credential|authorization|bearer|jwt|cookie|connection|dsn|webhook/i;

/** True where a member of that name holds a secret, judging by its name. */
export function isSecretName(name: string): boolean {
  if (!SECRET_WORD.test(name)) return false;
  return SECRET_NAME.test(
    name
      .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
      .replaceAll(/[\s.-]+/g, '_')
      .toLowerCase(),
  );
}

/** The password in every `scheme://user:password@host`, up to the last `@` before the host. A placeholder is none. */
const URL_PASSWORD = /(:\/\/[^\s/:@"'`,(]*:)[^\s/@]+(?:@[^\s/@?#"'<>,]+)*@/g;

/**
 * `Password=…;` of ADO, ODBC and JDBC, `password=…` of libpq, `AccountKey=…` of Azure. A value that no quotes or braces
 * enclose ends before `;`, the end of the line, or a quote that closes the text around the string.
 */
const CONNECTION_PASSWORD =
  /(^|;\s*|[\s"'({,])((?:[\w-]*(?:password|pwd)|accountkey|sharedaccess(?:key|signature))=)(?![=>\s])("(?:[^"]|"")*"|'(?:[^']|'')*'|\{(?:[^}]|\}\}){0,200}\}|(?:[^;"'\n]|["'](?![\s,.:;)\]}/>]|$))+)(?=(;?))/gi;

/** What code and templates have in place of the value: `${token}`, `{{token}}`, `%s`, `<token>`, `:token`, and text around `" + token + "`. */
const PLACEHOLDER = /^(?:\$?\{[^}]*\}|\$\{|\$\(|\{\{|%[sd(]|<|:[a-z]|\*+$|["']\s*[+.,;:)\]}])/;

/** The same where it is all of the value: `${pass}`, `{{pass}}`, `{0}`, `%(pass)s`, `%PASS%`, `$PASS`, `<pass>`. A default in it (`${pass:-x}`) is a value. */
const ENTIRE_PLACEHOLDER =
  /^(?:[$#]\{[\w.]+\}|\{\{[\w.]*\}\}|\{[\w.]*\}|\$\([\w.]+\)|%(?:\([\w.]+\))?[sdv]|%[A-Z_]+%|\$[A-Z_][A-Z0-9_]*|<[\w .-]+>)$/;

/** A parameter of a statement in place of a value of one, `?`, `$1`, `@name`, `{0}` or `{{name}}` in braces, which else enclose a value. */
const STATEMENT_PARAMETER = /^(?:\?\d{0,3}|\$\d{1,3}|@(?:[a-z_]{1,60}|p\d{1,3}))(?=$|[\s,;)])/i;
const FORMAT_PARAMETER = /^(?:\{\d{0,3}\}|\{\{[\w.]{0,60}\})/;

/** What a program calls, or takes from an object. */
const EXPRESSION =
  /^(?:[a-z_$][\w$.]{0,100}\([^()]{0,100}\)|(?:this|self|process|os|env|input|req|request|config|cfg|args|opts|options|params|form|settings|props|state|event|ctx|body|secrets|local|data)(?:\.[a-z_$][\w$]{0,60}){1,8})(?=$|[\s,;)\]}])/i;
const IDENTIFIER = /^[a-z_$][\w$]{0,60}(?:\.[\w$]{1,60}){0,8}(?=$|[\s,;)])/i;
/** Before a name that a program gives a value to. */
const DECLARATION = /(?:^|[^\w$])(?:const|let|var)$/;

/** Parts that connection strings have beside a password. */
const CONNECTION_PART =
  /(?:^|[;"'\s])(?:server|uid|user(?: ?(?:id|name))?|driver|data source|host|database|dbname|dsn|provider)=/i;

/** Addresses of webhooks and bots whose path is the secret: what is before it, then the secret. */
const SECRET_PATHS: readonly RegExp[] = [
  /(\bhooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/[^\s/?#"'<>]+\/[^\s/?#"'<>]+\/)[^\s?#"'<>]+/gi,
  // Discord.
  /(\/api\/(?:v\d+\/)?webhooks\/\d+\/)[^\s/?#"'<>]+/gi,
  // Microsoft Teams.
  /(\/IncomingWebhook\/)[^\s?#"'<>]+/gi,
  // Telegram.
  /(\/bot\d+(?::|%3a))[^\s/?#"'<>]+/gi,
  // Mattermost, Zapier, Make.
  /(\/hooks\/)[a-z0-9]{26}\b/g,
  /(\bhooks\.zapier\.com\/hooks\/(?:catch|standard)\/\d+\/)[^\s?#"'<>]+/gi,
  /(\bhook(?:\.[\w-]+)?\.(?:make|integromat)\.com\/)[^\s/?#"'<>]+/gi,
];

/** Credentials that a text of any kind shows as such: what is before each, then the secret. */
const CREDENTIALS: readonly RegExp[] = [
  /(authorization["'\\]*\s*[:=]\s*["'\\]*(?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi,
  // The entire text; without a digit or mixed case it may be words.
  /^((?:[Bb]earer|[Bb]asic)\s+)(?=\S*(?:\d|[a-z][A-Z]))[\w.~+/=-]{16,}$/g,
  // Such a name within a JSON pointer.
  /(\/(?:[Bb]earer|[Bb]asic)\s+)(?=[^\s/]*(?:\d|[a-z][A-Z]))[\w.~+=-]{16,}/g,
  // The header that many services take a key in; words have no digit.
  /((?:^|[\s"'])x-(?:api|auth|access)-(?:key|token)["'\\]{0,4}\s{0,9}:\s{0,9}["'\\]{0,4})(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{8,}/gi,
  // Tokens that their beginning shows: of GitHub, of Slack, and JSON web tokens.
  /((?<![\w-])gh[pousr]_)[a-z0-9]{36,}/gi,
  /((?<![\w-])github_pat_)\w{22,}/g,
  /((?<![\w-])xox[abeoprs]-)[\w-]{10,}/g,
  /((?<![\w-])eyJ)[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g,
  /((?<![\w-])aws_(?:secret_access_key|session_token)\s{0,9}[=:]\s{0,9}["']?)[\w/+=]{16,}/gi,
  /(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:[^]{1,8000}?(?=-----END )|[\w+/=\\\s.,:()-]+)/g,
];

/** A text without any of these has none of `CREDENTIALS`. */
const CREDENTIAL_WORD =
  /bearer|basic|private key|x-(?:api|auth|access)-|gh[pousr]_|github_pat_|xox[abeoprs]-|eyJ|aws_s/i;

/** A member of JSON that is written within a text, its quotes perhaps escaped. */
const NAMED_TEXT = /((\\{0,3}")([^"\\]{1,60})\2\s{0,9}:\s{0,9}\2)((?:[^"\\\n]|\\(?!["\\])){1,4000})(?=\2)/g;

/** What examples and forms have in place of the value of a member. */
const NO_VALUE =
  /^(?:string|text|password|secret|token|required|optional|hidden|none|null|undefined|true|false)$/i;

/** Names of parameters of an address that hold a secret, beyond those that do so anywhere. */
const SECRET_PARAMETER = /(?:^|[_-])(?:key|sig|signature|auth|pass|pw|jwt)$|^code$/i;

/** A user without a password is a token from this length on. */
const TOKEN_USER = /(:\/\/)[^\s/:@?#"'`,(]{16,}@/g;

/**
 * Replaces what is secret in a text: private keys, credentials of a header, and in addresses and connection strings passwords,
 * users that are tokens, the secret path of a webhook, and the values of parameters (`?token=…&sig=…`) that are secrets by their names, or an encoded address with
 * one; also where JSON pointers have them (`/jobs/https:~1~1…`). The same text if there is none.
 */
export function withoutUrlSecrets(text: string, mask: string): string {
  const shown = withoutPlainSecrets(text, mask);
  if (!shown.includes('~1')) return shown;
  // As if the names of members were written as they are, with a space before each.
  const named = shown.replaceAll('/', '\u2028').replaceAll('~1', '/');
  const clean = withoutPlainSecrets(named, mask);
  return clean === named ? shown : clean.replaceAll('/', '~1').replaceAll('\u2028', '/');
}

function withoutPlainSecrets(text: string, mask: string): string {
  const open = CREDENTIAL_WORD.test(text)
    ? CREDENTIALS.reduce((rest, credential) => rest.replaceAll(credential, `$1${mask}`), text)
    : text;
  const named = open.includes('":') || open.includes('" :') ? withoutNamedSecrets(open, mask) : open;
  const clean = named.includes('=') ? withoutConnectionSecrets(named, mask) : named;
  if (!clean.includes('/')) return clean;
  const shown = SECRET_PATHS.reduce((rest, path) => rest.replaceAll(path, `$1${mask}`), clean);
  if (!shown.includes('://')) return shown;
  return shown
    .replaceAll(URL_PASSWORD, (whole: string, before: string) =>
      isUrlPassword(whole, before) ? `${before}${mask}@` : whole,
    )
    .replaceAll(TOKEN_USER, (whole: string, before: string) =>
      isUrlPassword(whole, before) ? `${before}${mask}@` : whole,
    )
    .replaceAll(
      /([?&#]|&amp;)([\w.%[\]-]{1,60})=("[^"]*"|'[^']*'|[^\s&#;"'<>]+)/g,
      (whole, before: string, name: string, value: string) =>
        !PLACEHOLDER.test(value) &&
        !ENTIRE_PLACEHOLDER.test(value) &&
        (isSecretParameter(name) || hasEncodedSecret(value))
          ? `${before}${name}=${mask}`
          : whole,
    );
}

function withoutNamedSecrets(text: string, mask: string): string {
  return text.replaceAll(
    NAMED_TEXT,
    (whole: string, before: string, _quote: string, name: string, value: string) =>
      isSecretName(name) &&
      !(mask !== '' && value.includes(mask)) &&
      !NO_VALUE.test(value) &&
      !PLACEHOLDER.test(value) &&
      !ENTIRE_PLACEHOLDER.test(value)
        ? `${before}${mask}`
        : whole,
  );
}

function withoutConnectionSecrets(text: string, mask: string): string {
  const isOfLines = text.includes('\n');
  let known: boolean | undefined;
  const isConnection = (): boolean => (known ??= CONNECTION_PART.test(text));
  return text.replaceAll(
    CONNECTION_PASSWORD,
    (whole: string, before: string, name: string, value: string, after: string, at: number) => {
      if (PLACEHOLDER.test(value) && !value.startsWith('{')) return whole;
      const start = at + before.length + name.length;
      const first = text.slice(start, start + MOST_OF_EXPRESSION);
      if (FORMAT_PARAMETER.test(first)) return whole;
      // A directory of a shell.
      if (/^(?:OLD)?PWD=$/.test(name) && /^[/~]/.test(first) && !isConnection()) return whole;
      const end = at + whole.length;
      const isPart = before.startsWith(';') || /^;\s{0,9}\w[\w ]{0,60}=/.test(text.slice(end, end + 80));
      if (!isPart && STATEMENT_PARAMETER.test(first)) return whole;
      if (!isPart && EXPRESSION.test(first) && !isConnection()) return whole;
      if (IDENTIFIER.test(first) && DECLARATION.test(text.slice(Math.max(0, at - 8), at))) return whole;
      // Only `;` separates the parts of a string that has it; else a space does, as in one of libpq.
      const isWhole = /^["'{]/.test(value) || before.startsWith(';') || after === ';';
      // Within a line of a program it is an argument.
      if (!isWhole && isOfLines && before !== '' && before !== '\n') return whole;
      return `${before}${name}${mask}${isWhole ? '' : value.slice(value.search(/\s|$/))}`;
    },
  );
}

/** Characters of a value that are read to tell whether a program or a statement has something else in its place. */
const MOST_OF_EXPRESSION = 400;

/** @param found up to the `@` before the host; `before`: what of it is no secret */
function isUrlPassword(found: string, before: string): boolean {
  return !ENTIRE_PLACEHOLDER.test(found.slice(before.length, -1));
}

/** Names of members without the secrets of URLs; those that differ in their secrets only are numbered, so that none is taken for another. */
export class MemberNames {
  readonly #alike = new Map<string, Map<string, number>>();

  /** @param parent where the member is */
  shown(name: string, parent = ''): string {
    const masked = withoutUrlSecrets(name, MASK);
    if (masked === name) return name;
    const key = JSON.stringify([parent, masked]);
    const alike = this.#alike.get(key) ?? new Map<string, number>();
    this.#alike.set(key, alike);
    const number = alike.get(name) ?? alike.size + 1;
    alike.set(name, number);
    return number === 1 ? masked : `${masked} (${number})`;
  }
}

/** True for a text with a `scheme://user:password@host`. */
export function hasUrlPassword(text: string): boolean {
  return [...text.matchAll(URL_PASSWORD)].some(([found, before = '']) => isUrlPassword(found, before));
}

/** True for a text in which `withoutUrlSecrets` finds a secret. */
export function hasUrlSecret(text: string): boolean {
  return withoutUrlSecrets(text, '') !== text;
}

/** `token`, `x[token]`, `token[]` and the like, also percent-encoded. */
function isSecretParameter(name: string): boolean {
  const own =
    decoded(name)
      .split(/[[\]]+/)
      .findLast((part) => part !== '') ?? '';
  return SECRET_PARAMETER.test(own) || isSecretName(own);
}

function hasEncodedSecret(value: string): boolean {
  if (!/%3a%2f%2f/i.test(value)) return false;
  return hasUrlSecret(decoded(value));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No percent-encoding: as it is.
    return text;
  }
}

/** An invite's id, for one, is its sign-up link. */
export function isIdSecret({ fields, idPath }: KindRow): boolean {
  return fields.some(({ isSecret, name }) => isSecret && name === idPath.at(-1));
}

/** Characters of an id that a message shows. */
const MOST_ID_SHOWN = 100;

/** A record's id for a message: in quotes, cut where it is too long, a mask where it is a secret. */
export function shownId(definition: KindRow, id: string): string {
  return isIdSecret(definition) ? MASK : JSON.stringify(id.slice(0, MOST_ID_SHOWN));
}
