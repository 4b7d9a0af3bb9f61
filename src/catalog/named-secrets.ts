/** Secrets recognized by the name before them: members of records and JSON, elements of XML, lines of YAML and a shell. */
import { getOwn, type JsonObject, type JsonValue } from '../core/json.ts';
import { EXPRESSION, isReference, PROGRAM } from './connection-secrets.ts';

/**
 * Names that objects of no fixed shape (a destination's `config`) give to secrets, whatever the letter case and the
 * separators, also as the last words of a longer name: the catalog lists those that are documented, and a service may
 * have others.
 * @internal
 */
export const SECRET_NAMES: readonly string[] = (
  'password db_password ssl_password sslkey_password passwd passphrase pwd pw secret secret_key secret_key_base private_key ' +
  'api_key access_key signing_key encryption_key shared_key account_key subscription_key ssh_key service_account_key service_account_json ' +
  'token credential credentials credentials_json authorization authorization_header bearer jwt otp cookie ' +
  'admin_pass auth_pass db_pass ftp_pass mail_pass smtp_pass user_pass ' +
  'connection_string connection_uri connection_url dsn webhook_url'
).split(' ');
/** Those that mean something else at the end of a longer name (`first_pass`). @internal */
export const ENTIRE_NAMES: readonly string[] = ['pass'];
const SECRET_NAME = new RegExp(`(?:^|_)(?:${SECRET_NAMES.join('|').replaceAll('_', '_?')})$`);

/** True for a pair (`{"name":"Authorization","value":"…"}`) whose value is a secret according to its name. */
export function isSecretPair(pair: JsonObject): boolean {
  return ['name', 'key', 'header'].some((member) => {
    const name = getOwn(pair, member);
    return typeof name === 'string' && !name.includes(' ') && isSecretVariable(name);
  });
}

/**
 * True for a header and its value in a list (`["Cookie","sid=…"]`), but not for a list of headers
 * (`["Authorization","Accept"]`) or a message.
 */
function isSecretHeader(name: string, value: string): boolean {
  if (!/-|authorization|cookie/i.test(name) || /\s/.test(name) || !isSecretName(name)) return false;
  const own = value.replace(SCHEME, '');
  if (isReference(own)) return false;
  return own !== value || (/[^a-z-]/i.test(value) && (value.includes('=') || !/\s/.test(value)));
}

/** The same for such a list of its own in a record. */
export function isHeaderTuple(list: readonly JsonValue[]): boolean {
  const [name, value] = list;
  return (
    list.length === 2 && typeof name === 'string' && typeof value === 'string' && isSecretHeader(name, value)
  );
}

/** Part of each name of a secret. Most names have none of these, and such an expression takes 0.4 ms to compile. */
const SECRET_WORD =
  /pass|pwd|pw\b|secret|key|token|credential|authorization|bearer|jwt|cookie|connection|dsn|webhook|otp\b|service.?account/i;

/** True if a member is a secret according to its name. */
export function isSecretName(name: string): boolean {
  if (!SECRET_WORD.test(name)) return false;
  if (ENTIRE_NAMES.includes(name.slice(name.lastIndexOf('.') + 1).toLowerCase())) return true;
  return SECRET_NAME.test(
    name
      .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
      .replaceAll(/[\s.-]+/g, '_')
      .toLowerCase(),
  );
}

/** Names of variables with a secret, in addition to the names that mean one anywhere. */
const SECRET_VARIABLE = /(?:token|secret|password|[_.-]key|[a-z]Key)$|(?:TOKEN|SECRET|PASSWORD|KEY)$/;

/** The same for a variable, whose name may be in capitals (`STRIPE_KEY`). */
export function isSecretVariable(name: string): boolean {
  return isSecretName(name) || (isCapitals(name) && SECRET_VARIABLE.test(name));
}

function isCapitals(name: string): boolean {
  return name === name.toUpperCase();
}

/** A name whose value is a secret URL, so that text that looks like a scheme or a path is a secret too. */
const ADDRESS_NAME = /(?:url|uri|dsn|connection[\s_.-]?string)$/i;

/**
 * A quoted text, perhaps within one of JSON whose quotes are escaped (`\"`, `\\\"`): its quote, that which ends it, and
 * what is between, in which a quote or a backslash is escaped once more.
 */
export const OPEN = String.raw`(?<escape>\\{0,3})(?<quote>["'])`;
export const CLOSE = String.raw`\k<escape>\k<quote>`;
const BACKSLASHES = String.raw`(?:\k<escape>\k<escape>\\\\){0,9}`;
export const REST = String.raw`(?:\\{0,60}(?!\k<quote>)[^\\\n]|${BACKSLASHES}\k<escape>\k<escape>\\\k<quote>){0,20000}${BACKSLASHES}`;

const COLON = String.raw`\s{0,9}:\s{0,9}`;
const COMMA = String.raw`\s{0,9},\s{0,9}`;
const NAME = String.raw`(?:[^"'\\]|\\{1,4}u[\da-fA-F]{4}){1,60}`;
const NAME_OF_PAIR = String.raw`(?:name|key|header)${CLOSE}${COLON}${CLOSE}`;
/** Members between the two of a pair. */
const BETWEEN = String.raw`(?:${COMMA}${CLOSE}${NAME}${CLOSE}${COLON}(?:${CLOSE}[^"'\\]{0,200}${CLOSE}|[\w.-]{1,30}))`;

/**
 * A member of JSON that is written within a text, its quotes perhaps escaped, or a pair of such
 * (`"name":"Cookie","value":"…"`). The text may be cut off in the value. Not the choice `a ? 'token' : 'b'`.
 */
const NAMED_TEXT = new RegExp(
  String.raw`(?<!\?\s?)(${OPEN}(?:${NAME_OF_PAIR}(?=${NAME}${CLOSE}\s{0,9},))?(${NAME})${CLOSE}\s{0,9}(?:,\s{0,9}${CLOSE}value${CLOSE}\s{0,9})?(?::|=>)\s{0,9}${CLOSE})(${REST})(?=(?:${CLOSE}${BETWEEN}{0,4}?${COMMA}${CLOSE}${NAME_OF_PAIR}(${NAME})${CLOSE})?)`,
  'g',
);
/** A pair with others between: it has to leave these to `NAMED_TEXT`. */
const PAIR_APART = new RegExp(
  String.raw`(${OPEN}${NAME_OF_PAIR}(${NAME})${CLOSE}${BETWEEN}{1,4}?${COMMA}${CLOSE}value${CLOSE}${COLON}${CLOSE})(${REST})`,
  'g',
);
/** A header and its value in a list of JSON or a program, or the name of a constant or a variable and its value in a call. */
const HEADER_TUPLE = new RegExp(
  String.raw`((?:define|[sS]etenv)?[[(]\s{0,9}${OPEN}([\w-]{1,60})${CLOSE}${COMMA}${CLOSE})(${REST})(?=${CLOSE}\s{0,9}[\])])`,
  'g',
);
/** A JSON member that is a list or an object. */
const NAMED_LIST = new RegExp(
  String.raw`(?<!\?\s?)${OPEN}(?<name>${NAME})${CLOSE}\s{0,9}(?::|=>)\s{0,9}(?=[[{])`,
  'g',
);
/** Names of lists of secrets. Not `tokens`, which may also be words or counts. */
const LIST_NAME = /(?:^|[_-])passwords$|Passwords$/;
/** A part of such a list. */
const LIST_PART = new RegExp(
  String.raw`${OPEN}(?<value>${REST})(?:${CLOSE}\s{0,9}(?<name>:|=>)?)?|[[\]{}]`,
  'g',
);

/** A text of XML. */
const ELEMENT = /(<(?:[\w.-]{1,60}:)?([a-z][\w.-]{0,60})>(?:<!\[CDATA\[)?)([^<>]{1,1000})(?=<\/|\]\]>)/gi;

/** A pair of attributes of XML: `<add key="password" value="…"/>`. */
const ATTRIBUTES =
  /(<[\w.:-]{1,60}\s(?:[^<>]{0,200}?\s)?(?:key|name)=(["'])([\w.-]{1,60})\2\s{1,9}value=(["']))([^"'<>]{1,1000})(?=\4)/gi;

/** An element of XML with its value in an attribute: `<token value="…"/>`. */
const VALUED_ELEMENT =
  /(<(?:[\w.-]{1,60}:)?([a-z][\w.-]{0,60})\s(?:[^<>]{0,200}?\s)?value=(["']))([^"'<>]{1,1000})(?=\3)/gi;

/**
 * A line of YAML, a shell or a Dockerfile: what is before the value, its name, and the value, in quotes or without a
 * space, perhaps on the next line. A comment may follow.
 */
const YAML_LINE =
  /(^[ \t]{0,60}(?:[-*+>][ \t]{1,9}|export[ \t]{1,9}|(?:arg|env)[ \t]{1,9}(?=[\w.-]{1,61}=)|\/\/\S{1,200}:(?=_))?[*`]{0,3}([a-z_][\w.-]{0,60})[*`]{0,3}[ \t]?(?::[*`]{0,3}(?:[ \t]{0,9}(?:[|>][-+]?[ \t]{0,9})?\r?\n)?[ \t]{1,60}|=(?![=>~])[ \t]?))("(?:\\"|[^"\n]){1,1000}"|'(?:'(?:\\')?'|[^'\n]){1,1000}'|[^\s"']\S{0,1000})(?=[ \t]{0,20}(?:[ \t]#[^\n]*)?\r?$)/gim;

/** A Windows variable and its value. */
const SETX =
  /(^[ \t]{0,60}setx[ \t]{1,9}(["']?)([a-z_][\w.-]{0,60})\2[ \t]{1,9})("[^"\n]{1,1000}"|'[^'\n]{1,1000}'|[^\s"'/]\S{0,1000})/gim;

/** A value of YAML, in quotes or without a space. */
const YAML_VALUE = String.raw`"(?:\\"|[^"\n]){1,1000}"|'(?:''|[^'\n]){1,1000}'|[^\s"']\S{0,1000}`;
const NAME_OF_VARIABLE = String.raw`(?:name|key|header):[ \t]{1,9}["']?(?<name>[\w.-]{1,60})["']?`;
/** The text before the value of such a variable, which may be on the next line. */
const VALUE_OF_VARIABLE = String.raw`value:(?:[ \t]{0,9}(?:[|>][-+]?[ \t]{0,9})?\r?\n)?[ \t]{1,60}`;
const END_OF_LINE = String.raw`[ \t]{0,20}(?:[ \t]#[^\n]{0,300})?\r?`;
/** The next line after comments. */
const NEXT_LINE = String.raw`${END_OF_LINE}\n(?:[ \t]{0,60}#[^\n]{0,300}\n){0,3}[ \t]{0,60}`;
const LINE_OF_LIST = String.raw`^[ \t]{0,60}(?:-[ \t]{1,9})?`;

/** The variable of a container in YAML, with its value and its name on two lines, or in braces. */
const YAML_PAIRS: readonly RegExp[] = [
  `(?<before>${LINE_OF_LIST}${NAME_OF_VARIABLE}${NEXT_LINE}${VALUE_OF_VARIABLE})(?<value>${YAML_VALUE})(?=${END_OF_LINE}$)`,
  `(?<before>${LINE_OF_LIST}${VALUE_OF_VARIABLE})(?<value>${YAML_VALUE})(?=${NEXT_LINE}${NAME_OF_VARIABLE}${END_OF_LINE}$)`,
  String.raw`(?<before>\{[ \t]{0,9}${NAME_OF_VARIABLE}[ \t]{0,9},[ \t]{0,9}value:[ \t]{1,9})(?<value>"[^"\n]{1,1000}"|'[^'\n]{1,1000}'|[^\s"',{}]{1,1000})(?=[ \t]{0,9}[,}])`,
  String.raw`(?<before>\{[ \t]{0,9}value:[ \t]{1,9})(?<value>"[^"\n]{1,1000}"|'[^'\n]{1,1000}'|[^\s"',{}]{1,1000})(?=[ \t]{0,9},[ \t]{0,9}${NAME_OF_VARIABLE}[ \t]{0,9}[,}])`,
].map((form) => new RegExp(form, 'gim'));

/**
 * A text that a program gives a name, perhaps with a type or of a map: `const apiKey = 'a'`, `os.environ['API_KEY'] =
 * 'a'`. Not what ends a text of a program.
 */
const ASSIGNED = new RegExp(
  String.raw`((?<![\w.-])(?:env:)?([a-z_][\w$.-]{0,100})(?:\\{0,3}["']\]|\[\])?(?:[ \t]?:[ \t]?[a-z&][\w<>.?|]{0,40}|[ \t]string)?[ \t]{0,9}(?::|\|\||\?{1,2})?=[ \t]{0,9})${OPEN}((?![[\s,+.)(&;:>|}\]"'\x60])${REST})${CLOSE}(?!\k<quote>)`,
  'gi',
);

/** A variable within a line: `token=a1b2c3d4`. */
const VARIABLE = /(?<=^|[\s"'({,])([a-z_][\w.-]{0,60})=([\w~+/-]{8,1000})(?=[\s,;.)"']|$)/gim;

/**
 * A member in braces whose name has no quotes, of YAML or a program, or such a brace. Without quotes a blank is before
 * its value.
 */
const FLOW_MEMBER = new RegExp(
  String.raw`[{}]|(?<=[{,]\s{0,60})((?<name>[a-z_][\w.-]{0,60})[ \t]?:)(?<value>[ \t]{0,9}${OPEN}${REST}${CLOSE}|[ \t]{1,9}[^\s"'()[\]{},]{1,1000}(?=[ \t]{0,9}[,}]))`,
  'gi',
);

/** Such a value without quotes that stands for something else: an alias, a tag, a block, a flow, a path, a reference. */
const YAML_OTHER = /^(?:[*&!|>[%@#/]|\{(?![^\s{}:,]+\}$)|\.{1,2}\/|[a-z][\w+.-]{0,20}:)|[,;({[|]$|\)[,;]?$/i;
/** The same without addresses and paths. */
const NO_ADDRESS = /^(?:[*&!|>[%@#]|\{(?![^\s{}:,]+\}$))|[,;({[|]$|\)[,;]?$/;
/** The same of a shell, where `!`, `#`, `@` and `%` begin a value. */
const NO_END = /[,;({[|]$|\)[,;]?$/;
/** A text that begins like a path, but has a sign of base64. */
const BASE64 = /^\/(?=[\w/]{0,200}[+=])[\w+/]{6,}={0,2}$/;
/** Two parts, the second with letters and a digit: `ann:hunter2`. Not a reference: `arn:…`, `vault:…`, `file:…`. */
const JOINED =
  /^(?!(?:arn|vault|aws|ssm|kms|gcp|sm|secrets?(?:manager)?|file|env|ref|op|keyring|key|sha\d+|path|see|urn|data|json|base64):)[a-z][\w+.-]{0,20}:(?!\/)(?=[^\s:]*\d)(?=[^\s:]*[a-z])[^\s:]{6,}(?<![,;({[|)])$/i;
const TIME_OR_NUMBER = /^(?:\d{4}-\d\d-\d\d.*|\d{1,5}(?:%|\/\d{1,5})?)$/;
/** A member of an object whose name has a number, in a program: `user2.token`. */
const NUMBERED_MEMBER = /^(?:[a-z_$]{1,40}\d{0,3}\.){1,8}[a-z_$]{1,40}$/i;
/** Words and small numbers joined by hyphens: `min-8-chars`, `2FA-app`. */
const HYPHENED_WORDS =
  /^(?=.*[a-z]{2})(?:(?:[A-Z]?(?=[a-z]*[aeiouy])[a-z]{1,20}|\d{1,2}(?:FA)?)(?:-(?!$)|$)){2,6}$/;

/** Shows that lines are not YAML but a block or a program. */
const BLOCK = /[{(]\s{0,9}\r?\n|^[ \t]{0,60}[})]/m;

/**
 * Without quotes, a word of letters may be prose (`token: expired`) or a name in a program (`token: apiToken`).
 * @param name the name of the value
 * @param isShell true for a variable in capitals, whose value is not the name of another
 */
function isYamlSecret(text: string, name: string, isShell: boolean): boolean {
  const [quote = ''] = /^["']/.exec(text) ?? [];
  const value = quote === '' ? text : text.slice(1, -1);
  if (isReference(value)) return false;
  if (quote !== '') return true;
  const other = ADDRESS_NAME.test(name) ? NO_ADDRESS : isShell && /^[!#@%]/.test(value) ? NO_END : YAML_OTHER;
  if (other.test(value) && !JOINED.test(value) && !BASE64.test(value)) return false;
  if (TIME_OR_NUMBER.test(value) || EXPRESSION.test(value)) return false;
  if (NUMBERED_MEMBER.test(value) || HYPHENED_WORDS.test(value)) return false;
  return value.length >= 4 && (isShell || /[^\p{L}_.-]/u.test(value));
}

/** Masks the texts in JSON below members with names of secrets, and headers in lists. */
export function withoutNamedSecrets(text: string, mask: string): string {
  return withoutListSecrets(withoutTextSecrets(text, mask), mask).replaceAll(
    HEADER_TUPLE,
    (whole: string, before: string, _escape, _quote, name: string, value: string) =>
      !(mask !== '' && value.includes(mask)) &&
      (/^[dsS]/.test(before) ? isSecretVariable(name) && !isReference(value) : isSecretHeader(name, value))
        ? before + mask
        : whole,
  );
}

function withoutTextSecrets(text: string, mask: string): string {
  const isSecretValue = (value: string): boolean =>
    !(mask !== '' && value.includes(mask)) && !isReference(value.replace(SCHEME, ''));
  const apart = text.replaceAll(
    PAIR_APART,
    (whole: string, before: string, _escape, _quote, name: string, value: string) =>
      isSecretVariable(unescaped(name)) && isSecretValue(value) ? `${before}${mask}` : whole,
  );
  return apart.replaceAll(
    NAMED_TEXT,
    (whole: string, before: string, _escape, _quote, name: string, value: string, after?: string) => {
      const isPair = /["']\s{0,9},/.test(before);
      const isSecret =
        (isPair ? isSecretVariable : isSecretName)(unescaped(name)) ||
        (name === 'value' && isSecretVariable(unescaped(after ?? '')));
      // JSON within JSON, or after a value that does not end.
      if (!isSecret) return /["']/.test(value) ? before + withoutTextSecrets(value, mask) : whole;
      return isSecretValue(value) ? `${before}${mask}` : whole;
    },
  );
}

/**
 * Masks values below such a member that would be secrets on a line of YAML without quotes, because responses to forms
 * have sentences there (`{"password":["is too short"]}`). Headers never have sentences.
 */
function withoutListSecrets(text: string, mask: string): string {
  let [shown, end, next] = ['', 0, 0];
  for (const { index, 0: head, groups = {} } of text.matchAll(NAMED_LIST)) {
    const name = unescaped(groups['name'] ?? '');
    // It is within another list.
    if (index < next || !(isSecretName(name) || LIST_NAME.test(name))) continue;
    const isHeader = /authorization|cookie/i.test(name);
    const parts = new RegExp(LIST_PART);
    parts.lastIndex = index + head.length;
    let depth = 0;
    let member = '';
    for (let part = parts.exec(text); part !== null; part = parts.exec(text)) {
      const { escape = '', quote = '', value, name: colon } = part.groups ?? {};
      if (value === undefined) depth += /[[{]/.test(part[0]) ? 1 : -1;
      else if (colon === undefined && !SCHEMA_MEMBER.test(member) && isListSecret(value, isHeader, mask)) {
        const start = part.index + escape.length + quote.length;
        shown += text.slice(end, start) + mask;
        end = start + value.length;
      }
      member = colon === undefined ? '' : (value ?? '');
      next = parts.lastIndex;
      if (depth === 0) break;
    }
  }
  return shown + text.slice(end);
}

function isListSecret(value: string, isHeader: boolean, mask: string): boolean {
  if (mask !== '' && value.includes(mask)) return false;
  const own = unescaped(value).replace(SCHEME, '');
  return isHeader ? !isReference(own) : !/\s|\p{Lo}/u.test(own) && isYamlSecret(own, '', false);
}

/** The description of a member in a schema. */
const SCHEMA_MEMBER = /^(?:type|format|pattern|\$ref)$/;
const SCHEME = /^(?:bearer|basic|token)\s+/i;

/** A JSON text with `\uXXXX` replaced by the characters. */
function unescaped(text: string): string {
  return text.replaceAll(/\\+u([\da-f]{4})/gi, (_whole, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}

/** Masks the texts and values of XML with such names. */
export function withoutElementSecrets(text: string, mask: string): string {
  const isSecret = (name: string, value: string): boolean => isSecretName(name) && !isReference(value.trim());
  return text
    .replaceAll(ELEMENT, (whole: string, before: string, name: string, value: string) =>
      isSecret(name, value) ? before + mask : whole,
    )
    .replaceAll(ATTRIBUTES, (whole: string, before: string, _quote, name: string, _other, value: string) =>
      isSecret(name, value) ? before + mask : whole,
    )
    .replaceAll(VALUED_ELEMENT, (whole: string, before: string, name: string, _quote, value: string) =>
      isSecret(name, value) ? before + mask : whole,
    );
}

/**
 * Masks such values on lines of their own.
 * @param isStrict true if unquoted values in a program, which may be names, do not count as secrets
 */
export function withoutYamlSecrets(text: string, mask: string, isStrict: boolean): string {
  let program: boolean | undefined;
  const isProgram = (): boolean => (program ??= BLOCK.test(text) || PROGRAM.test(text) || /\(\{/.test(text));
  const isSecret = (value: string, name: string, isShell: boolean): boolean =>
    !(mask !== '' && value.includes(mask)) &&
    isYamlSecret(value, name, isShell) &&
    !(isStrict && !/^["']/.test(value) && !isShell && isProgram());
  const set = text.replaceAll(SETX, (whole: string, before: string, _quote, name: string, value: string) =>
    isSecretVariable(name) && isSecret(value, name, true) ? before + mask : whole,
  );
  const lines = set.replaceAll(YAML_LINE, (whole: string, before: string, name: string, value: string) => {
    const isVariable = before.includes('=');
    // It is a mapping with members of its own.
    if (before.includes('\n') && value.endsWith(':')) return whole;
    if (!isSecretName(name) && !(isVariable && SECRET_VARIABLE.test(name))) return whole;
    return isSecret(value, name, isVariable && isCapitals(name)) ? `${before}${mask}` : whole;
  });
  const pairs = !lines.includes('value:')
    ? lines
    : YAML_PAIRS.reduce(
        (shown, form) =>
          shown.replaceAll(form, (whole: string, ...found: unknown[]) => {
            const { before = '', name = '', value = '' } = found.at(-1) as Record<string, string>;
            if (!isSecretVariable(name) || !isSecret(value, name, isCapitals(name))) return whole;
            return before + mask + whole.slice(before.length + value.length);
          }),
        lines,
      );
  const assigned = !pairs.includes('=')
    ? pairs
    : withoutAssigned(pairs, mask).replaceAll(VARIABLE, (whole: string, name: string, value: string) =>
        /\d/.test(value) && /[a-z]/i.test(value) && isSecretName(name) && isSecret(value, name, false)
          ? `${name}=${mask}`
          : whole,
      );
  return withoutFlowSecrets(assigned, mask, (value, name) => isSecret(value, name, false));
}

function withoutAssigned(text: string, mask: string): string {
  return text.replaceAll(
    ASSIGNED,
    (whole: string, before: string, name: string, _escape: string, _quote: string, value: string) => {
      if (!isSecretName(name) || (mask !== '' && value.includes(mask)) || value.includes('${')) return whole;
      const own = value.replace(SCHEME, '');
      return isReference(own) || isSameName(own, name) ? whole : before + mask;
    },
  );
}

/** True for a constant with its own name as the value: `const SET_TOKEN = 'set-token'`. */
function isSameName(value: string, name: string): boolean {
  const plain = (text: string): string => text.replaceAll(/[\s_.-]/g, '').toLowerCase();
  return plain(value) === plain(name);
}

/** Masks such members in braces; without quotes, only those on the same line as another or the brace. */
function withoutFlowSecrets(
  text: string,
  mask: string,
  isSecret: (value: string, name: string) => boolean,
): string {
  if (!text.includes('{')) return text;
  let [shown, next, depth] = ['', 0, 0];
  for (const { index, 0: whole, 1: before = '', groups = {} } of text.matchAll(FLOW_MEMBER)) {
    const { name, value = '', escape = '' } = groups;
    if (name === undefined) depth = whole === '{' ? depth + 1 : Math.max(0, depth - 1);
    else if (depth > 0 && isSecretName(name)) {
      const own = value.trimStart();
      const isOfLine = /["']$/.test(own) || !/\n\s*$/.test(text.slice(Math.max(0, index - 60), index));
      const plain = escape === '' ? own : own.slice(escape.length, -escape.length - 1) + own.slice(-1);
      if (!isOfLine || !isSecret(plain, name)) continue;
      const start = index + before.length + value.length - own.length;
      shown += text.slice(next, start) + mask;
      next = index + whole.length;
    }
  }
  return shown + text.slice(next);
}
