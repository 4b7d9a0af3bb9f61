/** A command over several mirrors: calls it for each, names the source, and joins the results. */
import { createColors } from 'picocolors';
import { PassThrough, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  asTidemarkError,
  combinedExitCode,
  EXIT,
  exitCodeFor,
  TidemarkError,
  type ExitCode,
} from '../core/errors.ts';
import { getOwn, isJsonObject, type JsonObject, type JsonValue, parseLossless } from '../core/json.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { withSource } from '../core/hints.ts';
import { namesOf } from '../config/mirrors.ts';
import { isDetailed } from '../core/logger.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { Located, MirrorLoop } from './command-row.ts';
import {
  type CommandAction,
  type CommandContext,
  isColoured,
  printDocument,
  printReason,
} from './context.ts';
import type { ExportFormat } from './export-directory.ts';
import { formatOfFile } from './export-output.ts';
import { errorLines, reportFailure } from './failure.ts';
import { explainMissing } from './missing-mirror.ts';
import { UnknownParent } from './named-parents.ts';
import { notKnownLines, UNREAD_HINT, UnknownRecord } from './not-known.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';

type Options = Readonly<Record<string, unknown>>;

interface Loop {
  readonly action: CommandAction<Options>;
  readonly options: Options;
  /** The sources of the mirrors, in the order of the configuration. */
  readonly sources: readonly string[];
  readonly row: MirrorLoop;
}

interface Failure {
  readonly source: string;
  readonly error: TidemarkError;
  /** True if it does not count for the exit code: another mirror has what was looked for, and this source was not named. */
  readonly isNote?: boolean;
}

/**
 * Calls the command for each mirror. An error is reported with its source and does not stop the others; wrong usage and an interruption
 * do. The exit codes are combined as for several sources.
 * @throws TidemarkError `usage` if an option names a file for one source only; the error if all mirrors have the same
 */
export async function forEachMirror(context: CommandContext, loop: Loop): Promise<ExitCode> {
  const isJson = context.options.json === true || loop.options['format'] === 'json';
  requireOneResult(context, loop);
  const codes: ExitCode[] = [];
  const failures: Failure[] = [];
  const documents: { source: string; text: string }[] = [];
  let isFirst = true;
  const found = new Set<Kind>();
  const shared = {
    once: onceOnly(context),
    onFound: (kinds: readonly Kind[]) => kinds.forEach((kind) => found.add(kind)),
  };
  const unread: Failure[] = [];
  for (const source of loop.sources) {
    const collected = isJson ? new PassThrough() : null;
    const text$ = collected === null ? null : text(collected);
    const stdout: PassThrough | HeadedOutput =
      collected ?? withHeading(context, loop.row.isNamed === true ? null : source, isFirst);
    const onShared = (error: TidemarkError): void => void unread.push({ source, error });
    const own = { ...contextOf(context, source, loop.sources, { ...shared, onShared }), stdout };
    try {
      codes.push(await loop.action(own, optionsOf(loop, source)));
    } catch (thrown) {
      context.signal.throwIfAborted();
      const error = asTidemarkError(thrown);
      if (error.code === 'usage') throw thrown;
      failures.push({ source, error });
    }
    isFirst &&= stdout instanceof HeadedOutput ? !stdout.hasBegun : true;
    collected?.end();
    const document = (await text$) ?? '';
    if (document !== '') documents.push({ source, text: document });
  }
  printShared(context, unread, loop.sources.length);
  if (failures.length < loop.sources.length) {
    const isNamed = context.options.source !== undefined;
    const others = failures.flatMap((failure) => besideOthers(failure, loop.row, { found, isNamed }));
    failures.splice(0, failures.length, ...others);
  }
  const [failure] = failures;
  if (failure !== undefined && failures.length === loop.sources.length && isSame(failures))
    throw failure.error;
  // Each directory has a document of its own.
  const { lists, ...row } = loop.row;
  const isJoined = row.directoryOption === undefined || loop.options[row.directoryOption] === undefined;
  const form = isJoined && lists !== undefined ? { ...row, lists } : row;
  if (isJson) await printDocument(context, jsonOf(form, documents, failures));
  for (const { source, error } of failures) {
    const { code, hint } = error;
    const named = new TidemarkError(code, `${source}: ${error.message}`, { hint, cause: error });
    const isVerbose = isDetailed(context.options.logLevel);
    reportFailure(context, named, {
      isVerbose,
      isJson: false,
      hasBegun: true,
      options: { ...context.options, source: [source] },
    });
    context.onReasonPrinted?.();
  }
  const counted = failures.filter(({ isNote }) => isNote !== true);
  return combinedExitCode([...codes, ...counted.map(({ error }) => exitCodeFor(error.code))]);
}

/**
 * What is still reported of a mirror if other mirrors have what was requested, such as an organization or project: not that it lacks
 * it, but that it could not know.
 */
function besideOthers(
  { source, error }: Failure,
  { isSearch }: MirrorLoop,
  { found, isNamed }: { readonly found: ReadonlySet<Kind>; readonly isNamed: boolean },
): Failure[] {
  if (error instanceof UnknownRecord) {
    const notKnown = error.notKnown.filter(({ kind }) => found.has(kind));
    if (notKnown.length === 0) return [];
    const text = notKnownLines(notKnown, false).join('\n');
    return [{ source, error: new TidemarkError('never_read', text, { hint: UNREAD_HINT }) }];
  }
  if (isSearch === true && error.code === 'never_read') return [{ source, error, isNote: !isNamed }];
  const isNone = error instanceof UnknownParent || (isSearch === true && error.code === 'reference_unknown');
  return isNone ? [] : [{ source, error }];
}

/**
 * Calls the command for the only mirror that has what it is about. Missing mirrors are reported, and make the result partial.
 * @throws TidemarkError `usage` if several have it, or if a missing mirror may have what is to be changed; `mirror_missing` if none has
 *   it and one is missing; `reference_unknown` if no mirror has it
 */
export async function inOnlyMatchingMirror(
  context: CommandContext,
  sources: readonly string[],
  { what, isIn, isWritten = false }: Located,
  action: (context: CommandContext) => Promise<ExitCode>,
): Promise<ExitCode> {
  const having: string[] = [];
  const away: Failure[] = [];
  const unread: Failure[] = [];
  for (const source of sources) {
    const config = readConfig(context, { ...context.options, source: [source] }, 'unused');
    try {
      if (hasIt(config, (mirror) => isIn(mirror, config), context.pid)) having.push(source);
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      // It may be in a list that this mirror lacks: reported if no other mirror has it.
      if (error.code === 'never_read') unread.push({ source, error });
      else if (error.code !== 'mirror_missing') throw thrown;
      else away.push({ source, error: asTidemarkError(await explainMissing(context, thrown)) });
    }
  }
  const [source, ...others] = having;
  if (others.length > 0) {
    throw new TidemarkError('usage', `the mirrors of ${namesOf(having)} have ${what}`, {
      hint: `name one with --source, such as --source ${having[0] ?? ''}`,
    });
  }
  const [first] = away;
  if (first !== undefined && (source === undefined || isWritten)) throw awayError(first, what, source);
  if (source === undefined && unread[0] !== undefined) throw awayError(unread[0], what, source);
  if (source === undefined) {
    throw new TidemarkError(
      'reference_unknown',
      `no mirror of ${plural(sources.length, 'source')} has ${what}`,
      {
        hint: `name a source with --source to see what its mirror has; there are ${namesOf(sources)}`,
      },
    );
  }
  const code = await action({ ...context, options: { ...context.options, source: [source] } });
  for (const { source: name, error } of away)
    printReason(context, errorLines({ message: `${name}: ${error.message}`, hint: error.hint }));
  return away.length === 0 ? code : combinedExitCode([code, EXIT.partial]);
}

/** @param having the only source whose mirror is there and has it */
function awayError({ source, error }: Failure, what: string, having: string | undefined): TidemarkError {
  if (having === undefined)
    return new TidemarkError(error.code, `${source}: ${error.message}`, { hint: error.hint, cause: error });
  return new TidemarkError('usage', `${source} may have ${what} too: ${error.message}`, {
    hint: `name the source that is meant with --source, such as --source ${having}`,
    cause: error,
  });
}

/** @throws TidemarkError `mirror_missing`, or another error that keeps the mirror from being read */
function hasIt(config: Config, isIn: (mirror: Mirror) => boolean, pid: number): boolean {
  const mirror = openConfiguredMirror(config, 'read', 'tidemark', pid);
  try {
    return isIn(mirror);
  } catch (error) {
    const { code } = asTidemarkError(error);
    if (code === 'reference_unknown' || error instanceof UnknownParent) return false;
    // Several of its records match.
    if (code === 'usage') return true;
    throw error;
  } finally {
    mirror.close();
  }
}

/** Each error once, with the source or the number of sources that have it. */
function printShared(context: CommandContext, unread: readonly Failure[], all: number): void {
  for (const [message, own] of Map.groupBy(unread, ({ error }) => error.message)) {
    const [first] = own;
    if (first === undefined) continue;
    const { source, error } = first;
    const { hint } = error;
    const here = own.length > 1 || hint === undefined ? hint : withSource(hint, source);
    const which = own.length === all ? `all ${all} sources` : `${own.length} of ${all} sources`;
    const name = own.length === 1 ? source : which;
    printReason(context, errorLines({ message: `${name}: ${message}`, hint: here }));
  }
}

type Shared = Pick<NonNullable<CommandContext['ofSeveral']>, 'once' | 'onFound' | 'onShared'>;

/** Caches results by the function that computes them. */
function onceOnly(context: CommandContext): Shared['once'] {
  const results = new Map<unknown, unknown>();
  return <Result>(compute: (context: CommandContext) => Result) => {
    if (!results.has(compute)) results.set(compute, compute(context));
    return results.get(compute) as Result;
  };
}

/** Without a pager, which the user would have to quit once per source. */
function contextOf(
  context: CommandContext,
  source: string,
  sources: readonly string[],
  shared: Shared,
): CommandContext {
  const options = { ...context.options, source: [source], pager: false };
  return { ...context, options, ofSeveral: { isFirst: source === sources[0], sources, ...shared } };
}

/** @throws TidemarkError `usage` for a file, or a format, that can have the result of one source only */
function requireOneResult(context: CommandContext, { options, row, sources }: Loop): void {
  const { format } = options;
  const hint = `name it with --source: ${sources.join(', ')}`;
  for (const key of ['output', 'out', 'runbook']) {
    const isDirectory = row.directoryOption === key && options['history'] !== true;
    if (options[key] === undefined || isDirectory) continue;
    throw new TidemarkError('usage', `--${key} holds one source, and each has a mirror of its own`, { hint });
  }
  const given = row.directoryOption === undefined ? undefined : options[row.directoryOption];
  if (typeof given === 'string' && formatOfFile(context, given, format as ExportFormat | undefined) !== null)
    throw new TidemarkError('usage', `${given} names one file, and each source has a mirror of its own`, {
      hint: `name a directory, in which each source has one of its own, or one source with --source: ${sources.join(', ')}`,
    });
  if (typeof format !== 'string' || (row.formats ?? []).includes(format)) return;
  if (options['output'] !== undefined && row.directoryOption === 'output') return;
  throw new TidemarkError('usage', `--format ${format} holds one source`, { hint });
}

/** Each source gets its own directory within the given one. */
function optionsOf({ options, row }: Loop, source: string): Options {
  const given = row.directoryOption === undefined ? undefined : options[row.directoryOption];
  if (row.directoryOption === undefined || typeof given !== 'string') return options;
  return { ...options, [row.directoryOption]: `${given.replace(/\/+$/, '')}/${source}` };
}

function isSame(failures: readonly Failure[]): boolean {
  return new Set(failures.map(({ error }) => `${error.code} ${error.message}`)).size === 1;
}

/** stdout for the text of one source, with its name as a heading before the first output. */
class HeadedOutput extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  hasBegun = false;
  readonly #target: CommandContext['stdout'];
  readonly #heading: string;

  constructor(target: CommandContext['stdout'], heading: string) {
    super({ decodeStrings: false });
    if (target.isTTY !== undefined) this.isTTY = target.isTTY;
    if (target.columns !== undefined) this.columns = target.columns;
    this.#target = target;
    this.#heading = heading;
  }

  override _write(chunk: string | Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (!this.hasBegun && this.#heading !== '') this.#target.write(this.#heading);
    this.hasBegun = true;
    if (this.#target.write(chunk)) done();
    else this.#target.once('drain', done);
  }
}

function withHeading(context: CommandContext, source: string | null, isFirst: boolean): HeadedOutput {
  const { bold } = createColors(isColoured(context));
  return new HeadedOutput(
    context.stdout,
    source === null ? '' : `${isFirst ? '' : '\n'}${bold(`${source}:`)}\n`,
  );
}

/** One document if the command has `lists`, otherwise one a line. */
function jsonOf(
  { lists, isReport, ...row }: MirrorLoop,
  documents: readonly { readonly source: string; readonly text: string }[],
  failures: readonly Failure[],
): string {
  const errors = failures.map(({ source, error: { code, message, hint } }) => ({
    ...{ source, code, message, hint: hint === undefined ? null : withSource(hint, source) },
  }));
  if (isReport === true) {
    const all = documents.flatMap(({ text: document }) => reportsIn(parseLossless(document)));
    const shortErrors = errors.map(({ source, code, message }) => ({ source, code, message }));
    return `${JSON.stringify({ schema: 'tidemark.reports/1', documents: all, errors: shortErrors }, null, 2)}\n`;
  }
  if (lists === undefined) {
    const failed = failures.map(({ source, error }, index) => ({
      ...{ schema: 'tidemark.error/1', ...errors[index], source, exit_code: exitCodeFor(error.code) },
    }));
    const lines = [
      ...documents.map(({ text: document }) => JSON.stringify(parseLossless(document))),
      ...failed.map((each) => JSON.stringify(each)),
    ];
    return lines.map((line) => `${line}\n`).join('');
  }
  const parsed = documents.map(({ source, text: document }) => ({ source, body: parseLossless(document) }));
  const bodies = parsed.flatMap(({ source, body }) => (isJsonObject(body) ? [{ source, body }] : []));
  return `${JSON.stringify({ ...joined(bodies, { ...row, lists }), ...(errors.length === 0 ? {} : { errors }) })}\n`;
}

/** The documents within `tidemark.reports/1`; any other document itself. */
function reportsIn(document: JsonValue): JsonValue[] {
  const inner = isJsonObject(document) ? getOwn(document, 'documents') : undefined;
  return Array.isArray(inner) ? inner : [document];
}

/** The run of a state and its time: null in a document of several mirrors, even if only one has a result. */
const OF_ONE_MIRROR: readonly string[] = ['run', 'at'];

/** Joins documents as `MirrorLoop` says; other values that differ become null. `mirrors` has the `mirror` of each source. */
function joined(
  documents: readonly { readonly source: string; readonly body: JsonObject }[],
  { lists = [], commons = [], sums = [], firsts = [], ofMirror = [] }: MirrorLoop,
): Record<string, unknown> {
  const keys = [...new Set(documents.flatMap(({ body }) => Object.keys(body)))];
  const result: Record<string, unknown> = {};
  for (const key of keys) {
    const values = documents.map(({ body }) => getOwn(body, key));
    if (lists.includes(key)) result[key] = values.flatMap((value) => (Array.isArray(value) ? value : []));
    else if (commons.includes(key)) {
      const common = commonOf(values);
      if (common.length > 0) result[key] = common;
    } else if (OF_ONE_MIRROR.includes(key)) result[key] = null;
    else if (sums.includes(key)) result[key] = summed(values);
    else if (firsts.includes(key)) result[key] = values[0] ?? null;
    else
      result[key] =
        new Set(values.map((value) => JSON.stringify(value))).size === 1 ? (values[0] ?? null) : null;
  }
  const mirrors = documents.flatMap(({ source, body }) => {
    const mirror = getOwn(body, 'mirror');
    const own = Object.fromEntries(ofMirror.map((key) => [key, getOwn(body, key) ?? null]));
    return mirror === undefined ? [] : [{ source, mirror, ...own }];
  });
  return { ...result, ...(mirrors.length === 0 ? {} : { mirrors }) };
}

function commonOf([first, ...others]: readonly (JsonValue | undefined)[]): JsonValue[] {
  if (!Array.isArray(first)) return [];
  return first.filter((each) => others.every((other) => Array.isArray(other) && other.includes(each)));
}

function summed(values: readonly (JsonValue | undefined)[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const value of values)
    if (isJsonObject(value))
      for (const [key, count] of Object.entries(value)) sum[key] = (sum[key] ?? 0) + Number(count);
  return sum;
}
