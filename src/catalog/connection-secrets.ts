/** Finds passwords of connection strings in texts, and recognizes placeholders of programs and templates. */

/**
 * Before the value in `Password=…;` of ADO, ODBC and JDBC (where blanks may be around `=`), `password=…` of libpq,
 * `AccountKey=…` of Azure.
 */
const CONNECTION_PASSWORD =
  /(^|;\s*|[\s"'({,])((?:[\w-]*(?:password|pwd)|accountkey|sharedaccess(?:key|signature))[ \t]{0,9}=[ \t]{0,9})(?![=>\s])/gi;
/** The value in quotes or braces. */
const ENCLOSED_VALUE = /"(?:[^"]|"")*"|'(?:[^']|'')*'|\{(?:[^}]|\}\}){0,200}\}/y;
/** The value in quotes with escaped quotes inside. */
const ESCAPED_VALUE = /"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'/y;
/** The end of any other value: before `;`, the end of the line, or a quote that closes the text around the string. */
const VALUE_END = /[;\n]|["'](?=[\s,.:;)\]}/>]|$)|$/g;

/**
 * What code and templates have in place of the value: `${token}`, `{{token}}`, `%s`, `<token>`, `:token`, and the text
 * around `" + token + "`. Not with a default, as in `${token:-x}`, nor with digits in braces.
 */
export const PLACEHOLDER =
  /^(?:\$\{(?![\w.]+(?::?[-=]|:\+)[^}])|\{[^}\d]*\}|\$\(|\{\{|%[sd(]|<|:[a-z]|\*+$|["']\s*[+.,;:)\]}])/;

/** What examples and forms have in place of a member's value. */
const NO_VALUE =
  /^(?:string|text|password|secret|tokens?|auth|required|optional|hidden|none|null|undefined|true|false)$/i;

/**
 * A `PLACEHOLDER` that is the entire value: `${pass}`, `{{pass}}`, `{0}`, `{db_pass}`, `%(pass)s`, `%PASS%`, `$PASS`,
 * `<pass>`. A default in it (`${pass:-x}`) counts as a value, as does text that looks like a token or, in `{}` and
 * `<>`, has a digit.
 */
const ENTIRE_PLACEHOLDER =
  /^(?:[$#]\{[\w.]+\}|\{\{[\w.]*\}\}|\{(?:\d?|[a-z_.]+)\}|\$\([\w.]+\)|%(?:\([\w.]+\))?[sdv]|%[A-Z_]+%|\$[A-Z_][A-Z0-9_]*|<[A-Za-z_ .-]+>)$/;

/** True if the entire value is a placeholder. */
export function isPlaceholder(value: string): boolean {
  if (!ENTIRE_PLACEHOLDER.test(value)) return false;
  const runs = value.match(/[a-z0-9]{10,}/gi) ?? [];
  return !runs.some((run) => /\d/.test(run) && /[a-z]/i.test(run));
}

/** True for text in place of a value: only a name (`${token}`, `{token}`, `$token`), or what examples and forms have. */
export function isReference(value: string): boolean {
  if (!/[a-z0-9]/i.test(value) || NO_VALUE.test(value) || PLACEHOLDER.test(value)) return true;
  return isPlaceholder(value) || isPlaceholder(value.toUpperCase());
}

/** A parameter of a statement in place of a value: `?` or `$1`, and `@name`, which may be a password in a connection string. */
const POSITION_PARAMETER = /^(?:\?|\$\d{1,2})(?=$|[\s,;)])/;
const STATEMENT_PARAMETER = /^(?:\?\d{1,3}|\$\d{3}|@(?:[a-z_]{1,60}|p\d{1,3}))(?=$|[\s,;)])/i;
/** A parameter of a format string or a template in braces, which otherwise enclose a value. */
const FORMAT_PARAMETER = /^(?:\{\d?\}|\{\{[a-z_.]{0,60}\}\})(?=$|[\s,;)"'])/i;

/** A function call or a member of an object in a program. */
export const EXPRESSION =
  /^(?:[a-z_$][\w$.]{0,100}\([^()]{0,100}\)|(?:this|self|process|os|env|input|req|request|config|cfg|args|opts|options|params|form|settings|props|state|event|ctx|body|secrets|local|data)(?:\.[a-z_$][\w$]{0,60}){1,8})(?=$|[\s,;)\]}])/i;
/** A name in a program, as the value of another name that it declares. */
const IDENTIFIER = /^(?:[a-z_$]{1,60}|[a-z_$][\w$]{0,60}(?:\.[\w$]{1,60}){1,8})(?=$|[\s,;)])/i;
const DECLARATION = /(?:^|[^\w$])(?:const|let|var)$/;

/**
 * Signs that an expression is none of the passwords that look like one (`Secret(2024)`, `local.dev1`): a call of
 * nothing or of a text,
 */
const CALL = /^(?:[a-z_$.]{1,100}\(\)|[\w$.]{1,100}\([^()]{0,100}["'])/i;
/** an argument, */
const ARGUMENT = /[\w$]\([^()"'\n]{0,200}$/;
/** or a statement of a text that has others of a program. */
const STATEMENT = /(?:^|[\n;{}(,])\s{0,80}$/;
export const PROGRAM =
  /\)\s?=>|=>\s?[{(]|\b(?:const|let|var)\s{1,9}[\w$]{1,60}\s{0,9}=|\b(?:def|function)\s{1,9}[\w$]{1,60}\s?\(|\bfunction\s?\(|\b(?:if|for|while|switch|catch)\s?\([^()\n]{1,100}\)\s?\{|\b(?:await|new|return)\s{1,9}[\w.]{1,60}\(|\w = [\w.]{1,60}\(|[\w)]\s?\{\n/;

/** Parts that connection strings have beside a password, but not what a statement compares with a parameter. */
const CONNECTION_PART =
  /(?:^|[;"'\s,?(])(?:server|uid|user(?: ?(?:id|name))?|driver|data source|initial catalog|host|address|port|endpoint\w{0,20}|database|dbname|dsn|provider|sslmode)=(?![?@]|\$\d|:[a-z]|%s)|\bjdbc:/i;

const PART_NAME = String.raw`(?:server|uid|user(?: ?(?:id|name))?|driver|data source|initial catalog|host|address|port|endpoint|database|provider|account ?name)[ \t]{0,9}=(?!=)`;
/** Such a part with blanks around its `=`, and with `;` before or after it. */
const SPACED_PART = new RegExp(
  String.raw`;\s{0,9}${PART_NAME}|(?:^|["'\s])${PART_NAME}[^;=\n]{1,200};|\bjdbc:`,
  'i',
);

/** What separates a value from the next part. */
const NEXT_PART = /^;\s{0,9}(?=\w[\w ]{0,60}=)/;

/** The text with the mask in place of passwords of connection strings; a value in code is none. */
export function withoutConnectionSecrets(text: string, mask: string): string {
  const endOfValue = connectionValues(text);
  const isSecret = connectionSecrets(text);
  const isOfLines = text.includes('\n');
  let shown = '';
  let next = 0;
  for (const { index: at, 0: found, 1: before = '', 2: name = '' } of text.matchAll(CONNECTION_PASSWORD)) {
    // It is within another password.
    if (at < next) continue;
    const start = at + found.length;
    const end = endOfValue(start);
    if (end === start || !isSecret({ at, before, name, start, end })) continue;
    // In a string with `;` nothing else separates the parts. Otherwise a space does, as in libpq.
    const isWhole = /["'{]/.test(text.charAt(start)) || before.startsWith(';') || text[end] === ';';
    // Within a line of a program, it is an argument.
    if (!isWhole && isOfLines && before !== '' && before !== '\n') continue;
    shown += text.slice(next, start) + mask;
    next = isWhole ? end : start + text.slice(start, end).search(/\s|$/);
  }
  return shown + text.slice(next);
}

/** Returns where the value at a position ends. Positions must ascend: an end that many values share is searched for once. */
function connectionValues(text: string): (start: number) => number {
  const forms = [ENCLOSED_VALUE, ESCAPED_VALUE].map((form) => new RegExp(form));
  const valueEnd = new RegExp(VALUE_END);
  const lastBrace = text.lastIndexOf('}');
  let known = -1;
  return (start) => {
    // A value may only begin like this and continue directly after it (`{12}34`).
    const isClosed = text[start] === '{' ? /^[\s;,)\]"'\\&<>]?$/ : /^[^\w]?$/;
    for (const form of forms) {
      if (text[start] === '{' && lastBrace < start) break;
      form.lastIndex = start;
      const end = start + (form.exec(text)?.[0].length ?? 0);
      if (end > start && isClosed.test(text.charAt(end))) return end;
    }
    if (start > known) {
      valueEnd.lastIndex = start;
      known = valueEnd.exec(text)?.index ?? text.length;
    }
    return known;
  };
}

/** A password of a connection string, or something similar: at `at` are `before` and `name`, followed by the value. */
interface FoundPassword {
  at: number;
  before: string;
  name: string;
  start: number;
  end: number;
}

function connectionSecrets(text: string): (found: FoundPassword) => boolean {
  let connection: boolean | undefined;
  const isConnection = (): boolean => (connection ??= CONNECTION_PART.test(text));
  let program: boolean | undefined;
  const isProgram = (): boolean => (program ??= PROGRAM.test(text));
  let spaced: boolean | undefined;
  const isSpaced = (): boolean => (spaced ??= SPACED_PART.test(text) && !isProgram());
  return ({ at, before, name, start, end }) => {
    const first = text.slice(start, start + MOST_OF_EXPRESSION);
    if (!first.startsWith('{') && PLACEHOLDER.test(first.slice(0, end - start))) return false;
    if (FORMAT_PARAMETER.test(first)) return false;
    // The current directory of a shell.
    if (/^(?:OLD)?PWD=$/.test(name) && /^[/~]/.test(first) && !isConnection()) return false;
    const isDeclared = DECLARATION.test(text.slice(Math.max(0, at - 8), at));
    if (isDeclared && IDENTIFIER.test(first)) return false;
    const separators = [before, NEXT_PART.exec(text.slice(end, end + 80))?.[0] ?? ''].filter((each) =>
      each.startsWith(';'),
    );
    // With blanks it is a statement of a program, unless other parts show that it is a connection string.
    if (/\s/.test(name)) {
      if (separators.length === 0 && text[end] !== ';') return false;
      if (EXPRESSION.test(first) || isReference(first.slice(0, end - start).trim())) return false;
      return /key|signature/i.test(name) || isSpaced();
    }
    // Statements of a program have `;` at the end of a line.
    if (separators.some((each) => !each.includes('\n'))) return true;
    if (POSITION_PARAMETER.test(first)) return false;
    if (isConnection()) return true;
    if (separators.length === 0 && STATEMENT_PARAMETER.test(first)) return false;
    if (!EXPRESSION.test(first)) return true;
    if (isDeclared || CALL.test(first)) return false;
    const head = text.slice(Math.max(0, at - MOST_OF_EXPRESSION), at + before.length);
    return !(ARGUMENT.test(head) || (STATEMENT.test(head) && isProgram()));
  };
}

/** How many characters are examined to find out whether there is an expression or a parameter in place of a value. */
const MOST_OF_EXPRESSION = 400;
