/** `tidemark drift accept KIND [ID]`: accepts the current drift of a record, or of a kind, by the fingerprints of its values. */
import { MemberNames } from '../catalog/masks.ts';
import type { Kind } from '../catalog/kinds.ts';
import { scopeKey, scopeText } from '../catalog/catalog.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { defined } from '../core/defined.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { parseEnd } from '../core/parse-time.ts';
import { formatInteger, localTime, plural, wordList } from '../core/wording.ts';
import { placeOf } from '../diff/compare.ts';
import { acceptedEarlier, type Finding } from '../diff/drift.ts';
import type { DriftAcceptance } from '../mirror/acceptances.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordRow } from '../mirror/records.ts';
import { acceptanceDocument, measuredOf } from '../report/drift-document.ts';
import { maskedId, maskedPlace, withMaskedId } from '../report/mask.ts';
import { nameText } from '../report/value-text.ts';
import type { SourceDrift } from '../state/drift.ts';
import { parseReference } from '../state/reference.ts';
import { openForChange } from './when-free.ts';
import { withRealIds } from './real-ids.ts';
import { idsOfRecords } from './not-known.ts';
import type { Located } from './command-row.ts';
import { kindArgument, locateRecord, lookUpRecord } from './record.ts';
import { print, printJson, printNote, type CommandContext } from './context.ts';
import { knownTo, sourcesOf } from './diff.ts';
import { findDrift, requireBaseline, isAskedFor } from './drift-place.ts';
import { filterOf } from './filter-options.ts';
import { snapshotNames, StateOpener } from './state-opener.ts';
import { readConfigToShow } from './unmasked-keys.ts';

interface AcceptOptions {
  readonly kind: string;
  /** Left out: every record of the kind. */
  readonly id?: string;
  readonly count?: number;
  readonly field?: readonly string[];
  readonly reason?: string;
  readonly until?: string;
  readonly from?: string;
  readonly live?: boolean;
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly as?: string;
}

/** Finds the mirror that has the record; undefined without an id. */
export function locateAccepted({ id, ...asked }: AcceptOptions): Located | undefined {
  return id === undefined ? undefined : locateRecord({ ...asked, id });
}

/**
 * Exit 0 if something was accepted; 1 if neither the record nor the kind drifts; 4 if there is no such record, it drifts in other fields,
 * or `--count` is not the number of open findings.
 */
export async function acceptDrift(context: CommandContext, asked: AcceptOptions): Promise<ExitCode> {
  const kind = kindArgument(asked.kind);
  const now = systemClock.now();
  const reason = asked.reason?.trim() ?? '';
  if (asked.id !== undefined && asked.count !== undefined) {
    throw new TidemarkError('usage', '--count is for all findings of a kind, and an id was given', {
      hint: 'leave one of them out',
    });
  }
  // Before anything is read from the service.
  if (reason === '' && asked.live === true) throw reasonMissing();
  const until = untilTime(context, asked.until, now);
  const from = parseReference(asked.from ?? 'baseline', now, { snapshots: snapshotNames(context) });
  const to = parseReference(asked.live === true ? 'live' : 'latest', now);
  const keys = [from, to].some(({ form }) => form === 'live') ? 'required' : 'unused';
  const config = readConfigToShow(context, keys);
  const mirror = await openForChange(context, config, 'drift accept', asked.as);
  using opener = new StateOpener(context, config, 'drift accept', mirror);
  requireBaseline(mirror, from);
  const all = sourcesOf(context, config, opener, [from, to]);
  const { organization, project } = asked;
  const parents = {
    ...defined({ organization, project }),
  };
  const known = knownTo(context, opener, all, [from, to]);
  const { options: parentIds, sources } = await withRealIds(parents, config, known);
  const options = { ...asked, ...parentIds };
  // Not by id, which may be masked as in reports.
  const filter = filterOf({ kind: [kind], ...parentIds });
  const drifts: SourceDrift[] = [];
  for (const source of sources)
    drifts.push(
      await findDrift(config, opener, { source, from, to, filter, mode: 'default', fields: [], now }),
    );
  const { id } = options;
  const { drift, accepted } =
    id === undefined
      ? allOfKind(drifts, options)
      : ofOneRecord(mirror, drifts, { ...options, id }, () => {
          const record = lookUpRecord(mirror, config, { ...options, id }, { sources });
          if (record.note !== undefined) printNote(context, [record.note]);
          return record.row;
        });
  if (reason === '') throw reasonMissing();
  const baseline = mirror.snapshots.baseline();
  const acceptances = mirror.acceptances.addAll(
    accepted.map((finding) => ({
      acceptance: {
        ...{ source: drift.source, fingerprint: finding.fingerprint },
        ...{ kind, scope: finding.scope, id: finding.id, path: placeOf(finding) },
        ...{ reason, acceptedAt: isoTime(now) },
        ...(until === undefined ? {} : { until }),
      },
      earlier: acceptedEarlier(drift, finding),
      measured: measuredOf(drift, finding, baseline),
    })),
  );
  const taken = new Set(accepted.map(({ fingerprint }) => fingerprint));
  const open = drift.open.filter(({ fingerprint }) => !taken.has(fingerprint)).length;
  await printAccepted(context, drift, accepted, acceptances, { kind, open });
  return EXIT.done;
}

function reasonMissing(): TidemarkError {
  return new TidemarkError('usage', 'accepted drift needs a reason', {
    hint: 'give the reason with --reason; reports show it',
  });
}

/** What is to be accepted in one source. */
interface Accepted {
  readonly drift: SourceDrift;
  readonly accepted: readonly Finding[];
}

/** The open findings of a kind. `--count` has to be their number, which shows that the user has looked at them. */
function allOfKind(
  drifts: readonly SourceDrift[],
  { kind, field, count: expected }: AcceptOptions,
): Accepted {
  const found = drifts
    .map((drift) => ({ drift, accepted: atFields(drift, drift.open, field) }))
    .filter(({ accepted }) => accepted.length > 0);
  const [only, ...others] = found;
  if (only === undefined) {
    throw new TidemarkError('not_found', `no finding of ${kind} is open: there is nothing to accept`, {
      hint: '`tidemark drift` shows what drifts; what the configuration ignores needs no accepting',
    });
  }
  if (others.length > 0) {
    const names = found.map(({ drift: { source } }) => source);
    throw new TidemarkError('usage', `findings of ${kind} are open in ${wordList(names)}`, {
      hint: 'name one with --source',
    });
  }
  const open = only.accepted.length;
  if (expected === open) return only;
  const areOpen = `${plural(open, 'finding')} of ${kind} ${open === 1 ? 'is' : 'are'} open`;
  throw new TidemarkError(
    'usage',
    expected === undefined
      ? `no id was given, and ${areOpen}`
      : `--count ${expected}, but ${areOpen}: nothing was accepted`,
    {
      hint: `look at what \`tidemark drift --kind ${kind}\` shows; name a record by its id, or accept all with --count ${open}`,
    },
  );
}

/** The findings of one record, at the fields of `--field`. */
function ofOneRecord(
  mirror: Mirror,
  drifts: readonly SourceDrift[],
  options: OfRecord,
  lookUp: () => Pick<RecordRow, 'source' | 'scope' | 'id'>,
): Accepted {
  const { drift, findings } = onlyRecord(findingsOf(mirror, drifts, options, lookUp), options);
  const accepted = atFields(drift, findings, options.field);
  if (accepted.length === 0) throw otherFields(findings, options);
  return { drift, accepted };
}

function atFields(
  { definitions }: SourceDrift,
  findings: readonly Finding[],
  field: readonly string[] | undefined,
): Finding[] {
  // By record: equal masked names are numbered within one.
  const records = Map.groupBy(findings, ({ scope, id }) => `${scopeKey(scope)} ${id}`);
  return [...records.values()].flatMap((own) => {
    const [first] = own;
    if (first === undefined) return [];
    const definition = definitions(first.kind);
    const names = new MemberNames(definition);
    return own.filter(({ path, place = path }) =>
      isAskedFor([path, place, maskedPlace(place, definition, names)], field),
    );
  });
}

/** Options that name a record. */
type OfRecord = AcceptOptions & { readonly id: string };

/** The findings of a record in one source. */
interface Found {
  readonly drift: SourceDrift;
  readonly findings: readonly Finding[];
}

/**
 * The findings of the record with this id; otherwise of the one that `lookUp` finds by name. A record that only the live state or an
 * export has is in no mirror: then its name is looked for among the findings.
 */
function findingsOf(
  mirror: Mirror,
  drifts: readonly SourceDrift[],
  { kind: kindText, id: asked }: OfRecord,
  lookUp: () => Pick<RecordRow, 'source' | 'scope' | 'id'>,
): readonly Found[] {
  const kind = kindArgument(kindText);
  const byId = ofRecord(
    drifts,
    ({ id }, { definitions }) => id === asked || maskedId(id, definitions(kind)) === asked,
  );
  if (byId.length > 0) return byId;
  // By another id, from before or after a restore that created it again.
  const idsOf = idsOfRecords(mirror);
  const byOtherId = ofRecord(drifts, ({ id }, { source }) => idsOf(source, kind, id).includes(asked));
  if (byOtherId.length > 0) return byOtherId;
  try {
    const row = lookUp();
    const place = scopeKey(row.scope);
    return ofRecord(
      drifts,
      ({ id, scope }, { source }) => source === row.source && id === row.id && scopeKey(scope) === place,
    );
  } catch (error) {
    const named =
      error instanceof TidemarkError && error.code === 'reference_unknown'
        ? ofRecord(drifts, ({ name }) => name === asked)
        : [];
    if (named.length === 0) throw error;
    return named;
  }
}

/** Includes accepted findings: accepting one again changes reason and date. */
function ofRecord(
  drifts: readonly SourceDrift[],
  isMeant: (finding: Finding, drift: SourceDrift) => boolean,
): Found[] {
  return drifts.flatMap((drift) => {
    const all = [...drift.open, ...drift.accepted.map(({ finding }) => finding)];
    const findings = all.filter((finding) => isMeant(finding, drift));
    return findings.length === 0 ? [] : [{ drift, findings }];
  });
}

function onlyRecord(found: readonly Found[], { kind, id }: OfRecord): Found {
  const [only] = found;
  if (only === undefined) {
    const message = `${kind} ${nameText(id)} does not drift: there is nothing to accept`;
    throw new TidemarkError('not_found', message, {
      hint: '`tidemark drift` shows what drifts, with its id; what the configuration ignores needs no accepting',
    });
  }
  const records = found.flatMap(({ drift: { source, definitions }, findings }) =>
    findings.map((finding) => ({
      key: JSON.stringify([source, scopeKey(finding.scope), finding.id]),
      place: [`source ${source}`, scopeText(finding.scope)].filter((part) => part !== '').join(', '),
      shownId: maskedId(finding.id, definitions(finding.kind)),
    })),
  );
  const count = new Set(records.map(({ key }) => key)).size;
  if (count === 1) return only;
  const isOneId = new Set(records.map(({ shownId }) => shownId)).size === 1;
  const lines = records.map(({ place, shownId }) =>
    isOneId ? place : `${kind} ${nameText(shownId)} (${place})`,
  );
  const summary = isOneId
    ? `${kind} ${nameText(id)} drifts in ${count} places:`
    : `${nameText(id)} is the name of ${count} records that drift:`;
  throw new TidemarkError('usage', [summary, ...new Set(lines)].join('\n'), {
    hint: `name one with ${isOneId ? '' : 'its id, '}--source, --organization or --project`,
  });
}

function otherFields(findings: readonly Finding[], { kind, id, field = [] }: OfRecord): TidemarkError {
  const paths = findings.map(({ path, place = path, change }) =>
    path === '' ? `the record (${change}): leave --field out` : place,
  );
  return new TidemarkError('usage', `${kind} ${nameText(id)} does not drift at ${field.join(' or ')}`, {
    hint: `it drifts at: ${paths.map(nameText).join(', ')}`,
  });
}

function untilTime(context: CommandContext, text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const time = parseEnd(text);
  if (time === undefined) {
    throw new TidemarkError('usage', `--until ${text} is not a date`, {
      hint: 'write 2026-06-30, or a time with its zone like 2026-06-30T12:00Z',
    });
  }
  if (time.epochMs <= now) {
    throw new TidemarkError('usage', `--until ${text} is over already`, {
      hint: 'name a later date; what was accepted is withdrawn with `tidemark drift unaccept`',
    });
  }
  if (time.note !== undefined) printNote(context, [time.note]);
  return isoTime(time.epochMs);
}

async function printAccepted(
  context: CommandContext,
  { source, definitions }: SourceDrift,
  accepted: readonly Finding[],
  acceptances: readonly DriftAcceptance[],
  { kind, open }: { readonly kind: Kind; readonly open: number },
): Promise<void> {
  if (context.options.json === true) {
    return printJson(context, {
      schema: 'tidemark.drift_accept/1',
      source,
      accepted: acceptances.map((acceptance) => {
        const { kind, scope, id, path } = acceptance;
        const definition = definitions(kind);
        return {
          ...{ kind, scope, id: maskedId(id, definition), path: maskedPlace(path, definition) },
          ...acceptanceDocument(acceptance),
        };
      }),
    });
  }
  const lines = accepted.map((finding) => {
    const { kind, change } = finding;
    const { name } = withMaskedId(finding, definitions(kind));
    const place = maskedPlace(placeOf(finding), definitions(kind));
    return `accepted: ${definitions(kind).title.one} ${nameText(name)} ${place === '' ? change : nameText(place)}`;
  });
  const until = acceptances[0]?.until;
  const values = accepted.length === 1 ? 'this value, also if it comes' : 'these values, also if they come';
  const end = `${until === undefined ? '' : ` until ${localTime(until)}`} (${values} back)`;
  const rest = `${open === 0 ? 'none' : formatInteger(open)} of ${definitions(kind).title.many} still open`;
  lines.push(`${plural(accepted.length, 'finding')} accepted${end}; ${rest}`);
  return print(context, `${lines.join('\n')}\n`);
}
