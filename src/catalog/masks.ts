/** Masks that servers return for secrets (wire-notes.md, Secrets), which must not be written back, and masking of texts. */
import { TidemarkError } from '../core/errors.ts';
import { holdsSecret, type Secret } from '../core/secret.ts';
import { isPlaceholder, isReference, PLACEHOLDER, withoutConnectionSecrets } from './connection-secrets.ts';
import type { KindRow } from './kinds.ts';
import {
  CLOSE,
  isSecretName,
  OPEN,
  REST,
  withoutElementSecrets,
  withoutNamedSecrets,
  withoutYamlSecrets,
} from './named-secrets.ts';

/** Replaces a secret in reports and plans. Old and new secrets look the same; the report says that they differ. */
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

/** True for a text in place of a secret. */
export function isMask(text: string): boolean {
  return MASK_PATTERNS.some((pattern) => pattern.test(text));
}

/** The password in every `scheme://user:password@host`, up to the last `@` before the host. Placeholders do not count. */
const URL_PASSWORD = /(:\/\/[^\s/:@"'`,(]*:)[^\s/@]+(?:@[^\s/@?#"'<>,]+)*(?=@)/g;

/** URLs of webhooks and bots with a secret in the path: the text before it, then the secret. */
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

/** The text after an opening quote, unless that quote ends a string of a program (`"--token " + token + " -v"`). */
const QUOTED = String.raw`(?![[\s,+.)])${REST}(?=${CLOSE}|\\{0,60}$)`;
/** A part of a shell word. */
const PART = String.raw`(?:${OPEN}(?![[\s,+.):;&|>\]}\\/])${REST}${CLOSE}|[^\s"'\x60])`;
const CURL_USER = String.raw`(?:^[ \t]{0,60}|(?<![\w-])curl(?=\s)(?:(?!\scurl\s)(?:[^\n;|]|(?<=\\)\n)){0,500}?\s)(?:-[uU]\s?|--(?:proxy-)?user[\s=])`;
const OPTION = String.raw`(?<![\w-])--(?:[\w-]{0,30}-)?(?:token|password|secret|api-?key|access-key|oauth2-bearer)[ =]`;

/** A shell word that is a password of curl or the value of an option, perhaps with quoted parts: `ann:b"c d"`. */
function wordAfter(before: string): RegExp {
  return new RegExp(String.raw`(${before}(?!\[|\/\/|\$\())(?:${PART})+`, 'gim');
}
const CURL_WORD = wordAfter(String.raw`${CURL_USER}["']?[^\s:"']{1,100}["']?:`);
const OPTION_WORD = wordAfter(OPTION);
const ONE_PART = new RegExp(String.raw`^(?:[^"']*|${OPEN}${REST}${CLOSE}[\\,;.)\]}]*)$`);

/** True for a word that other patterns mask. */
function isOnePart(value: string): boolean {
  return ONE_PART.test(value) || isReference(value);
}

/** A quoted value of an option or a header. It must have a digit and a letter, unlike words and numbers. */
const QUOTED_CREDENTIAL = new RegExp(
  String.raw`((?:${OPTION}|(?:^|[\s"'])x-(?:api|auth|access)-(?:key|token)\s{0,9}:\s{0,9})${OPEN})${QUOTED}`,
  'gi',
);

function isNoCredential(value: string): boolean {
  return value.length < 6 || !/\d/.test(value) || !/[a-z]/i.test(value) || isReference(value);
}

/** Credentials that can be recognized in any text: the text before each, then the secret. */
const CREDENTIALS: readonly RegExp[] = [
  /(authorization["'`\\]{0,4}\s{0,9}[:=]\s{0,9}["'`\\]{0,4}(?:bearer|basic|(?:token|api-?key|ssws|geniekey)(?=\s{1,9}\S{0,200}\d))\s{1,9}(?:token=["'`\\]{0,4})?)(?!\[)(?:\$\{[^}\n]{0,200}\}|[^\s"'`\\,;])+/gi,
  // The response of Digest and the signature of AWS.
  /((?<![\w-])digest\s(?:[^\n]{0,1000}?[\s,])?response=["'\\]{0,4})[\da-f]{32,128}/gi,
  /((?<![\w-])aws4-hmac-sha256\s(?:[^\n]{0,1000}?[\s,])?signature=["'\\]{0,4})[\da-f]{32,128}/gi,
  // The default of a variable, after a name or a parameter.
  /((?<![\w-])[\w-]{0,60}(?:token|secret|passw(?:or)?d|pwd|key|authorization)["'`\\]{0,4}\s?[:=]\s?["'`\\]{0,4})\$\{[\w.]{1,60}(?::?[-=]|:\+)(?:[^{}\n]|\{[^{}\n]{0,100}\}){1,200}\}/gi,
  // As the entire text. Without a digit or mixed case it may be words.
  /^((?:[Bb]earer|[Bb]asic)\s+)(?=\S*(?:\d|[a-z][A-Z]))[\w.~+/=-]{16,}$/g,
  // The same within a JSON pointer.
  /(\/(?:[Bb]earer|[Bb]asic)\s+)(?=[^\s/]*(?:\d|[a-z][A-Z]))[\w.~+=-]{16,}/g,
  // Headers in which many services accept a key. It must have a digit, unlike words.
  /((?:^|[\s"'])(?:x-(?:\w{1,20}-)?(?:api|auth|access|vault|gitlab)-(?:key|token)|private-token|ocp-apim-subscription-key)["'\\]{0,4}\s{0,9}:\s{0,9}["'\\]{0,4})(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{8,}/gi,
  /((?<![\w-])x-amz-security-token["'\\]{0,4}\s{0,9}[=:]\s{0,9}["'\\]{0,4})[\w%/+=-]{16,}/gi,
  // Cookies, up to the end of the line or of the quotes.
  /((?:^|[\s"'])(?:set-)?cookie\s{0,9}:\s{0,9})(?=[\w.-]{1,60}=(?=[^\s;"']{0,200}\d)[^\s;"']{6,})[^\n"'`\\]+/gi,
  // Passwords of other commands and in their files.
  /((?<![\w-])(?:sshpass\s{1,9}-p\s?|docker login\s(?:[^\n|;]{0,200}?\s)?-p\s))(?![\s[])[^\s"'`\\;]+/g,
  /((?<![\w-])--from-literal[= ]["']?[\w.-]{0,60}(?:passw(?:or)?d|pwd|token|secret|key|url)=)(?!\[)[^\s"'`]+/gi,
  /((?<![\w-])machine\s{1,9}\S{1,200}\s{1,9}login\s{1,9}\S{1,200}\s{1,9}password\s{1,9})(?!\[)\S+/g,
  /((?<![\w-])jdbc:oracle:\w{1,20}:[^\s/@:]{1,60}\/)(?!\[)[^\s@]+(?=@)/gi,
  // Tokens with a known prefix: of GitHub, npm, GitLab, OpenAI, Anthropic, Docker Hub, HashiCorp Vault,
  /((?<![\w-])(?:gh[pousr]|npm)_)[a-z0-9]{36,}/gi,
  /((?<![\w-])(?:glpat-|sk-(?:proj|ant)-|dckr_pat_|github_pat_|hvs\.))[\w-]{20,}/g,
  /((?<![\w-])sk-)[a-z0-9]{48}(?![\w-])/gi,
  // Slack, Stripe, PostHog (of a person), Hugging Face, Linear, Shopify, DigitalOcean, age, PyPI,
  /((?<![\w-])xox[abeoprs]-)[\w-]{10,}/g,
  /((?<![\w-])xapp-)\d-[\w-]{10,}/g,
  /((?<![\w-])[sr]k_(?:live|test)_)[a-z0-9]{16,}/gi,
  /((?<![\w-])whsec_)[\w/+=-]{24,}/g,
  /((?<![\w-])(?:phx|hf|lin_api)_)[a-z0-9]{30,}/gi,
  /((?<![\w-])(?:shpat|dop_v1)_)[a-f0-9]{32,}/gi,
  /((?<![\w-])AGE-SECRET-KEY-1)[A-Z0-9]{50,}/gi,
  /((?<![\w-])pypi-)AgE[\w-]{50,}/g,
  // Google, AWS and SendGrid, and JSON web tokens.
  /((?<![\w-])ya29\.)[\w-]{20,}(?:\.[\w-]+)*/g,
  // Options of commands. The value must have a digit and a letter, unlike words and numbers.
  new RegExp(
    String.raw`(${OPTION}["'\x60\\]{0,4})(?=[^\s"'\x60\\]{0,200}\d)(?=[^\s"'\x60\\]{0,200}[a-z])(?!\d?[<>&|[])[^\s"'\x60\\]{6,}`,
    'gi',
  ),
  // User and password of curl, with quotes around both, around the password, or none.
  new RegExp(String.raw`(${CURL_USER}${OPEN}[^:"'\n]{1,100}:)(?!\[|\/\/)${REST}(?=${CLOSE}|\\{0,60}$)`, 'gm'),
  new RegExp(String.raw`(${CURL_USER}["']?[^\s:"']{1,100}["']?:${OPEN})${QUOTED}`, 'gm'),
  new RegExp(
    String.raw`(${CURL_USER}["']?[^\s:"']{1,100}:)(?!\[|\/\/)(?:\$\{[^}\n]{0,200}\}|[^\s"'])+`,
    'gm',
  ),
  /((?<![\w-])A[KS]IA)[A-Z0-9]{16}(?![\w-])/g,
  /((?<![\w-])SG\.)[\w-]{16,}\.[\w-]{32,}/g,
  /((?<![\w-])AIza)[\w-]{35,}/g,
  /((?<![\w-])eyJ)[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g,
  /((?<![\w-])aws_(?:secret_access_key|session_token)\s{0,9}[=:]\s{0,9}["']?)[\w/+=]{16,}/gi,
];

/** Not one of `CREDENTIALS`, because text that begins with a tag (`<br>`) would be a placeholder there. */
const PRIVATE_KEY =
  /(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:[^]{1,8000}?(?=-----END )|(?:[\w+/=\\\s.,:()-]|<br ?\/?>|&gt;|>)+)/g;

/** The private part of a PuTTY key: lines of 64 characters, of which the last may be shorter. */
const PUTTY_KEY =
  /(private-lines:\s{0,9}\d{1,4}(?:\s|\\{1,4}[rn]){1,9})(?:[a-z\d+/=]{64}(?:\s|\\{1,4}[rn]){1,9}){0,200}(?!private-mac)[a-z\d+/=]{4,64}/gi;

/** A text that does not match has none of `CREDENTIALS`. */
const CREDENTIAL_WORD =
  /bearer|basic|authorization|--[\w-]{0,40}(?:token|password|secret|key|bearer)[ =]|private key|private-lines|digest\s|aws4-|x-(?:\w{1,20}-)?(?:api|auth|access|vault|gitlab|amz-security)-|private-token|subscription-key|--from-literal|cookie|sshpass|docker login|\bmachine\s|jdbc:oracle|gh[pousr]_|github_pat_|xox[abeoprs]-|xapp-|eyJ|glpat-|[sr]k_(?:live|test)_|whsec_|phx_|sk-(?:proj|ant)-|sk-[a-z0-9]{48}|age-secret-key-1|shpat_|hf_|dckr_pat_|pypi-age|lin_api_|hvs\.|ya29\.|dop_v1_|curl\s|-u ?[^\s:]{1,100}:|--(?:proxy-)?user|\$\{[\w.]{1,60}(?::?[-=]|:\+)|npm_|aws_s|a[ks]ia[a-z0-9]{16}|sg\.[\w-]{16}|aiza[\w-]{35}/i;

/**
 * A text without any of these has nothing that `withoutUrlSecrets` replaces. The backslash is for texts of JSON, which
 * may have any character as an escape. A colon before two digits is part of a time: nearly every record has one.
 */
const SECRET_SIGN = new RegExp(String.raw`[/=~,%&\\]|:(?!\d\d)|${CREDENTIAL_WORD.source}|\bsetx\s`, 'i');

/** False if neither the text nor, where it is JSON, the texts in it have anything that `withoutUrlSecrets` replaces. */
export function maySecretsBeIn(text: string): boolean {
  return SECRET_SIGN.test(text);
}

/** Names of URL parameters with a secret, in addition to the names that mean one anywhere. */
const SECRET_PARAMETER = /(?:^|[_-])(?:key|sig|signature|hmac|auth|pass|pw|jwt)$|^code$/i;

const PARAMETER = /([?&#]|&amp;)([\w.%[\]-]{1,60})=("[^"]*"|'[^']*'|(?:[^\s&#;"'<>]|;(?![\s"'<>]|$))+)/g;

/** A parameter with encoded separators. */
const ENCODED_PARAMETER =
  /((?:%(?:25)?(?:26|3f|3b|23|20|0a|0d)|(?<![\w.%-]))([\w.-]{1,60})%(?:25)?3d)((?:[^\s&"'<>%#]|%(?!26|3b|20|0a|0d)[\da-f]{2}){1,2000})/gi;

/** A user without a password is a token if it has this length. */
const TOKEN_USER = /(:\/\/)[^\s/:@?#"'`,(]{8,}(?=:(?:x-oauth-basic)?@|(?<=:\/\/[^@]{16,})@)/g;
/** Like `URL_PASSWORD`, in an encoded URL. */
const ENCODED_PASSWORD = /(%3a%2f%2f[^\s%]{0,100}%3a)[^\s&]{1,200}?(?=%40)/gi;
const SESSION = /(;jsessionid=)[\w.!-]{8,}/gi;

/**
 * Replaces the secrets in a text: private keys, credentials of headers, and in URLs and connection strings passwords,
 * users that are tokens, secret paths of webhooks, and values of parameters (`?token=…&sig=…`) that are secrets by
 * their names or are encoded URLs with a secret. Also in JSON pointers (`/jobs/https:~1~1…`). Returns the same text if
 * there is none.
 */
export function withoutUrlSecrets(text: string, mask: string): string {
  return maySecretsBeIn(text) ? withoutSecrets(text, mask, false) : text;
}

/** @param isStrict true if unquoted values in a program, which may be names, do not count as secrets */
function withoutSecrets(text: string, mask: string, isStrict: boolean): string {
  const plain = withPlainSigns(text);
  if (plain !== text) {
    const clean = withoutSecrets(plain, mask, isStrict);
    return clean === plain ? text : clean;
  }
  const shown = withoutPlainSecrets(text, mask, isStrict);
  if (!shown.includes('~1')) return shown;
  // Treats the segments of JSON pointers like names with a space before them.
  const named = shown.replaceAll('/', '\u2028').replaceAll('~1', '/');
  const clean = withoutPlainSecrets(named, mask, isStrict);
  return clean === named ? shown : clean.replaceAll('/', '~1').replaceAll('\u2028', '/');
}

/** The text with slashes, quotes and `=` unescaped, which JSON, HTML and CSV escape (`https:\/\/…`, `&quot;`, `"":""`). */
function withPlainSigns(text: string): string {
  if (!/\\(?:\/|u002f)|&(?:quot|apos|equals|#)|"" ?: ?""/i.test(text)) return text;
  const plain = text
    .replaceAll(/\\+(?:\/|u002f)/gi, '/')
    .replaceAll(/&(?:quot|#34|#x22);/gi, '"')
    .replaceAll(/&(?:apos|#39|#x27);/gi, "'")
    .replaceAll(/&(?:equals|#61|#x3d);/gi, '=');
  return /"" ?: ?""/.test(plain) ? plain.replaceAll('""', '"') : plain;
}

/** A text of a record for reports: without the secrets that `withoutUrlSecrets` finds and those of the configuration. */
export function shownText(text: string, { withheld }: Pick<KindRow, 'withheld'>): string {
  return withoutUrlSecrets(withheld?.masked(text, MASK) ?? text, MASK);
}

/**
 * A text typed by a person, as it is recorded permanently and shown: every name, reason and note passes through here.
 * @param what begins the message: `the reason`
 * @param secrets those of the configuration
 * @throws TidemarkError `usage` if the text has one of them
 */
export function recordedText(text: string, what: string, secrets: readonly Secret[]): string {
  if (holdsSecret(text, secrets))
    throw new TidemarkError('usage', `${what} holds a key or token of the configuration`, {
      hint: 'give another one; nothing was recorded',
    });
  return withoutUrlSecrets(text, MASK);
}

function withoutPlainSecrets(text: string, mask: string, isStrict: boolean): string {
  const without = (shown: string, forms: readonly RegExp[], isKept = isReference): string =>
    forms.reduce(
      (rest, form) =>
        rest.replaceAll(form, (whole: string, before: string) =>
          isKept(whole.slice(before.length)) ? whole : before + mask,
        ),
      shown,
    );
  const withoutCredentials = (): string => {
    const words = without(text, [CURL_WORD], isOnePart);
    const options = without(words, [OPTION_WORD], (value) => isOnePart(value) || isNoCredential(value));
    const keys = without(options, [PRIVATE_KEY, PUTTY_KEY], (value) => mask !== '' && value.includes(mask));
    return without(without(keys, [QUOTED_CREDENTIAL], isNoCredential), CREDENTIALS);
  };
  const open = CREDENTIAL_WORD.test(text) ? withoutCredentials() : text;
  const named = /["']\s{0,9}(?::|=>|,)/.test(open) ? withoutNamedSecrets(open, mask) : open;
  const elements = /<\/|\svalue=/.test(named) ? withoutElementSecrets(named, mask) : named;
  const lines = withoutYamlSecrets(elements, mask, isStrict);
  const clean = lines.includes('=') ? withoutConnectionSecrets(lines, mask) : lines;
  const isAddress = clean.includes('://');
  const shown = clean.replaceAll(PARAMETER, (whole, before: string, name: string, value: string) => {
    if (PLACEHOLDER.test(value) || isPlaceholder(value)) return whole;
    const isSecret = isAddress
      ? isSecretParameter(name) || hasEncodedSecret(value)
      : isSecretName(name) && !isReference(value) && !clean.includes('~1');
    return isSecret ? `${before}${name}=${mask}` : whole;
  });
  if (!/[/;%]/.test(clean)) return shown;
  const isEncoded = /%3a%2f%2f/i.test(shown);
  const parameters = shown.replaceAll(
    ENCODED_PARAMETER,
    (whole: string, before: string, name: string, value: string) =>
      (isSecretName(name) || (isEncoded && isSecretParameter(name))) && !isReference(decoded(value))
        ? before + mask
        : whole,
  );
  const paths = without(parameters, [...SECRET_PATHS, ENCODED_PASSWORD, SESSION]);
  return isAddress ? without(paths, [TOKEN_USER, URL_PASSWORD], isPlaceholder) : paths;
}

/** A word in the name of a variable that nobody would write by hand. */
const RANDOM_WORD = /(?<![a-z0-9])(?=[a-z0-9]*[a-z])(?=[a-z]*\d[a-z]*\d)[a-z0-9]{20,}/gi;

/** The name of a variable or file with a secret, for errors. If it is the secret itself, entered by mistake, it is masked. */
export function shownReference(name: string): string {
  return withoutUrlSecrets(name, MASK).replaceAll(RANDOM_WORD, MASK);
}

/**
 * Names of members and ids of elements as in `shownText`. Names that differ only in their secrets are numbered, so that
 * they can be distinguished.
 */
export class MemberNames {
  readonly #alike = new Map<string, Map<string, number>>();
  readonly #row: Pick<KindRow, 'withheld'>;

  constructor(row: Pick<KindRow, 'withheld'>) {
    this.#row = row;
  }

  /** @param parent where the member is */
  shown(name: string, parent = ''): string {
    const masked = shownText(name, this.#row);
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
  const found = withPlainSigns(text).matchAll(URL_PASSWORD);
  return found.some(([whole, before = '']) => !isPlaceholder(whole.slice(before.length)));
}

/** True if `withoutUrlSecrets` finds a secret in the text. */
function hasUrlSecret(text: string): boolean {
  return withoutUrlSecrets(text, '') !== text;
}

/**
 * The same for callers that replace the entire text: unquoted values in a program, which may be names of others, do not
 * count.
 */
export function hasCertainSecret(text: string): boolean {
  return withoutSecrets(text, '', true) !== text;
}

/** True for `token`, `x[token]`, `token[]` and the like, also percent-encoded. */
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
    // It is not percent-encoded.
    return text;
  }
}
