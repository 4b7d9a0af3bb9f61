/** `tidemark doctor`: checks what the key can read, the mirror, the backups and the configuration on this machine. */
import { lastStored, withMisattributed, withMissing } from '../backup/chain.ts';
import type { Backup } from '../backup/list.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { NOT_SENT } from '../config/checking.ts';
import type { Config } from '../config/config.ts';
import { configuredBackups, ownerOf } from '../config/mirrors.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, EXIT, type ExitCode, TidemarkError } from '../core/errors.ts';
import { LATEST_BACKUP, namingBackup, RESTORE_HINT } from '../core/hints.ts';
import { recordedSilentChannels, retryingChannels } from '../daemon/notices/known-channels.ts';
import { clockProblems, mirrorProblems } from '../doctor/local-problems.ts';
import { type Problem, bySeverity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import type { ChannelRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { readConfig } from '../wire.ts';
import { firstSource } from './catalog.ts';
import {
  isInteractive,
  isOneOutput,
  lineOptions,
  print,
  printJson,
  printReason,
  type CommandContext,
} from './context.ts';
import { daemonOf } from './daemon-effects.ts';
import { doctorDocument } from './doctor-document.ts';
import {
  inspectMirror,
  openToInspect,
  problemReason,
  healthReport,
  problemReport,
  reachReport,
} from './doctor-report.ts';
import { checkTargets, targetOwners, targetProblems } from './doctor-backups.ts';
import { backupToName, missingMirror } from './missing-mirror.ts';
import { otherSourcesNote } from './other-sources.ts';
import { probeSource } from './source-probe.ts';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { CATALOG } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { asFileError } from '../core/file-errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { parseYaml } from '../core/yaml.ts';
import { DriftNow } from '../daemon/health/drift-now.ts';
import type { MirrorHealth } from '../doctor/mirror-health.ts';
import { compareContract, type Contract, type DifferenceCode } from '../doctor/contract.ts';
import { wantedKinds } from '../sync/run-extent.ts';
import type { ReportDocument, TablePart } from '../report/document.ts';
import { renderText } from '../report/render-text.ts';

export async function doctor(
  context: CommandContext,
  options: { readonly openapi?: string },
): Promise<ExitCode> {
  if (options.openapi !== undefined) {
    return await checkContract(context, options.openapi);
  }
  const config = readConfig(context, context.options);
  const now = systemClock.now();
  const { mirror: readable, error } = openToInspect(context, config, 'doctor');
  using opened = readable;
  const inspected = inspectMirror(context, config, { mirror: opened, error });
  const mirror = inspected.damage.length === 0 ? opened : null;
  const health = await withDamageRead(inspected, { mirror, config, now });
  const daemon = health.isThere ? daemonOf(context, config.mirror) : null;
  const missing =
    health.isThere && health.error?.code !== 'mirror_missing' ? null : await missingMirror(context, config);
  const reaches: SourceReach[] = [];
  for (const source of config.sources) {
    if (isInteractive(context)) context.stderr.write(`looking at ${source.baseUrl.host} …\n`);
    reaches.push(await probeSource(context, source, mirror, config.rateLogBeside));
  }
  const inMirror = new MirrorQuestions(mirror);
  const owners = inMirror.ask((opened) => targetOwners(opened, config)) ?? new Map();
  const isMirrorAway = missing !== null;
  const compared = (backups: readonly Backup[], directory: BackupTarget | null): readonly Backup[] =>
    inMirror.ask((opened) => {
      const marked = withMisattributed(opened, backups);
      return directory === null
        ? marked
        : withMissing(directory, marked, lastStored(opened, directory.address));
    }) ?? backups;
  const targets = await checkTargets(config, { owners, isMirrorAway, compared }, context.signal);
  const otherSources = inMirror.ask((each) => otherSourcesNote(each, config));
  const found = bySeverity([
    ...reaches.flatMap((reach) => [...reachProblems(reach), ...clockProblems(reach)]),
    ...mirrorProblems(health, { isDaemonAlive: daemon !== null, now, owner: ownerOf(config), missing }),
    ...inMirror.problems(),
    ...(otherSources === null
      ? []
      : [{ gravity: 'warning', code: 'other_sources', ...otherSources } as const]),
    ...targetProblems(targets),
    // The same for each source: printed once.
    ...(context.ofSeveral?.isFirst === false
      ? []
      : configWarnings(config, inMirror.ask((each) => each.daemon.channels()) ?? [])),
    ...(inMirror.ask((each) => retryingChannels(config, each, now)) ?? []).map((message) => ({
      ...({ gravity: 'warning', code: 'notices_undelivered', source: null } as const),
      ...{ message, next: '`tidemark notify test` tries the channels' },
    })),
  ]);
  const backups = configuredBackups(config);
  const isRestoreAdvised = found.some(({ next }) => next.includes(RESTORE_HINT));
  const backup = isRestoreAdvised ? await backupToName(context, config) : LATEST_BACKUP;
  const problems = found.map((problem) => ({
    ...problem,
    next: namingBackup(problem.next, backup, backups),
  }));
  if (context.options.json === true) {
    await printJson(context, doctorDocument({ reaches, health, daemon, targets, problems }));
  } else {
    const isVerbose = context.options.verbose === true;
    const reports = [
      ...reaches.map((reach) => reachReport(reach, { isVerbose })),
      healthReport(health, { now, daemon, targets, isVerbose, isMissing: missing !== null }),
      problemReport(
        problems.filter(({ gravity }) => isVerbose || gravity !== 'note'),
        health,
      ),
    ];
    await print(context, reports.map((report) => renderText(report, lineOptions(context))).join('\n'));
  }
  const code = doctorExitCode(reaches, problems);
  // Not printed again below the report.
  if (isOneOutput(context)) context.onReasonPrinted?.();
  else if (code !== EXIT.done) printReason(context, problemReason(problems));
  return code;
}

/** The warnings of the configuration; for channels that send nothing, what the process that sends has recorded. */
function configWarnings(config: Config, channels: readonly ChannelRow[]): Problem[] {
  const silent = recordedSilentChannels(config, channels);
  const isOfChannel = (warning: string): boolean => warning.endsWith(NOT_SENT);
  const next = '`tidemark config check` shows the configuration as it was understood';
  return [
    ...config.warnings.filter((each) => !isOfChannel(each)).map((message) => ({ message, next })),
    ...silent.map(({ why, hint }) => ({ message: `${why}: ${NOT_SENT}`, next: hint ?? next })),
  ].map((each) => ({ gravity: 'warning', code: 'config_warning', source: null, ...each }));
}

/** Adds damage that only reading records shows, as in `status`: it compares with the baseline. The quick check reads no records. */
async function withDamageRead(
  health: MirrorHealth,
  { mirror, config, now }: { readonly mirror: Mirror | null; readonly config: Config; readonly now: number },
): Promise<MirrorHealth> {
  // Problems of the last verification come first, as in `status`.
  if (mirror === null || (health.verification?.problems ?? 0) > 0) return health;
  const drift = new DriftNow();
  const names = config.sources.map(({ name }) => name);
  await drift.ofAll(mirror, config, names, now);
  const damage = drift.damage(mirror);
  return damage === null
    ? health
    : { ...health, damage: [damage.replace(`${mirror.path} is damaged: `, '')] };
}

/** Reads from the mirror, and collects the errors: the quick check does not find all damage, and the rest is still reported. */
class MirrorQuestions {
  readonly #mirror: Mirror | null;
  readonly #errors = new Map<string, TidemarkError>();

  constructor(mirror: Mirror | null) {
    this.#mirror = mirror;
  }

  /** Null without a mirror, or if it cannot be read. */
  ask<T>(question: (mirror: Mirror) => T): T | null {
    try {
      return this.#mirror === null ? null : question(this.#mirror);
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      this.#errors.set(error.message, error);
      return null;
    }
  }

  problems(): Problem[] {
    return [...this.#errors.values()].map(({ code, message, hint }) => ({
      ...{ gravity: 'error', code, source: null, message },
      next: hint ?? '`tidemark verify` says what is damaged',
    }));
  }
}

// `tidemark doctor --openapi FILE`: compares the catalog with an OpenAPI document of the service. Sends nothing.

/** Ten times the size of the documents of the largest public APIs. */
const LARGEST_BYTES = 64 * 1024 * 1024;

async function checkContract(context: CommandContext, file: string): Promise<ExitCode> {
  const definitions = mirroredDefinitions(context);
  const contract = compareContract(definitions, readDocument(resolve(context.cwd, file)));
  if (context.options.json === true) await printJson(context, contractDocument(file, contract));
  else await print(context, renderText(contractReport(contract), lineOptions(context)));
  return contract.differences.length === 0 ? EXIT.done : EXIT.differences;
}

function readDocument(path: string): unknown {
  let text: string;
  try {
    if (statSync(path).size > LARGEST_BYTES) throw noDocument(path, 'is larger than 64 MiB');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof TidemarkError) throw error;
    const problem = asFileError(error, path, 'read');
    throw new TidemarkError('usage', problem instanceof Error ? problem.message : String(problem), {
      hint: 'name a readable file with --openapi',
      cause: error,
    });
  }
  try {
    return /^\s*\{/.test(text) ? (JSON.parse(text) as unknown) : parseYaml(text);
  } catch (error) {
    throw noDocument(path, 'is neither JSON nor YAML', error);
  }
}

function noDocument(path: string, what: string, cause?: unknown): TidemarkError {
  return new TidemarkError('usage', `${path} ${what}`, {
    hint: 'give the JSON or YAML file of an OpenAPI 3.0 or 3.1 document, without anchors',
    ...(cause === undefined ? {} : { cause }),
  });
}

function contractDocument(file: string, contract: Contract): object {
  return {
    schema: 'tidemark.contract/1',
    file,
    openapi: contract.version,
    title: contract.title,
    compared: contract.compared,
    differences: contract.differences,
    outside: contract.outside,
    without_fields: contract.withoutFields,
  };
}

/** The heading of each sort of difference, and what it means for mirroring and restoring. */
const HEADINGS: readonly (readonly [DifferenceCode, string, string])[] = [
  [
    'operation_only_in_catalog',
    'the catalog has, the document does not',
    'a list that is not offered makes a run partial (leave its kind out: kinds.exclude); a write that is missing fails in a restore',
  ],
  ['operation_only_in_document', 'the document offers, the catalog does not know', 'not read, not restored'],
  [
    'field_only_in_catalog',
    'fields that only the catalog has',
    'nothing to do for the mirror; a writable one may be refused when it is restored',
  ],
  [
    'field_only_in_document',
    'fields that only the document has',
    'mirrored and compared as received; `definitions` of the source can make one writable, volatile or secret',
  ],
  ['type', 'fields of another type', 'values are kept as received; `definitions` corrects the type in SQL'],
  [
    'writable',
    'fields that requests take, or do not',
    'what the catalog calls writable is sent by a restore: `definitions` corrects it',
  ],
  ['read_only', 'fields that the document marks readOnly', 'a restore sends them: `definitions` corrects it'],
];

function contractReport(contract: Contract): ReportDocument {
  const { version, title, compared, differences, outside, withoutFields } = contract;
  const tables = HEADINGS.flatMap(([code, heading, hint]): TablePart[] => {
    const found = differences.filter((each) => each.code === code);
    if (found.length === 0) return [];
    const isField = found[0]?.field !== null;
    const columns = isField ? ['kind', 'field', 'catalog', 'document'] : ['kind', 'operation'];
    return [
      {
        ...{ type: 'table', heading: `${heading} (${formatInteger(found.length)})`, columns, hint },
        align: columns.map(() => 'left'),
        rows: found.map(({ kind, field, catalog, document, operation }) =>
          isField ? [kind ?? '·', field ?? '', catalog, document] : [kind ?? '·', operation],
        ),
      },
    ];
  });
  return {
    title: `OpenAPI ${version}${title === null ? '' : `, ${title}`}`,
    textTitle: 'label',
    summary: differences.length === 0 ? 'no differences' : plural(differences.length, 'difference'),
    detail: `${plural(compared.operations, 'operation')} and ${plural(compared.fields, 'field')} compared`,
    tone: differences.length === 0 ? 'good' : 'warning',
    facts: [
      ...(withoutFields.length > 0 ? [`no fields shown for: ${withoutFields.join(', ')}`] : []),
      ...(outside > 0
        ? [
            `${plural(outside, 'operation')} of the document ${outside === 1 ? 'is' : 'are'} of families that are not mirrored`,
          ]
        : []),
    ],
    parts: tables,
  };
}

/** What the first source mirrors; the entire catalog without a configuration. */
function mirroredDefinitions(context: CommandContext): readonly ResourceDefinition[] {
  const source = firstSource(context);
  if (source === undefined) return CATALOG;
  const kinds = wantedKinds(source, null);
  return source.definitions.filter(({ kind }) => kinds.has(kind));
}
