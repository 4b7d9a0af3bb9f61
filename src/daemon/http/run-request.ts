/** `POST /api/v1/runs`: what is asked for, proper or refused by name. */
import type { Kind } from '../../catalog/definition.ts';
import type { JobName } from '../../mirror/daemon-jobs.ts';
import { kindFrom } from './query.ts';
import { Refusal } from './refusal.ts';

interface RunRequest {
  readonly job: JobName;
  /** Null for all. */
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  /** Null for all. */
  readonly kinds: readonly Kind[] | null;
}

export const JOB_NAMES: readonly JobName[] = ['sync', 'drift', 'verify', 'forget', 'drill', 'copy'];
const MEMBERS = ['job', 'sources', 'full', 'kinds'];
const MOST_NAMES = 1_000;

/** @throws Refusal 400 for what is no such request */
export function parseRunRequest(text: string): RunRequest {
  const body = parsed(text);
  const unknown = Object.keys(body).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined)
    throw wrong(`it has a member that is not known; known are ${MEMBERS.join(', ')}`);
  const job = JOB_NAMES.find((name) => name === body['job']);
  if (job === undefined) throw wrong(`"job" must be one of ${JOB_NAMES.join(', ')}`);
  const full = body['full'] ?? false;
  if (typeof full !== 'boolean') throw wrong('"full" must be true or false');
  const kinds = names(body['kinds'], 'kinds');
  if (job !== 'sync' && (full || kinds !== null)) throw wrong('"full" and "kinds" are for "sync" only');
  return {
    job,
    sources: names(body['sources'], 'sources'),
    full,
    kinds: kinds === null ? null : kinds.map(kindFrom),
  };
}

function parsed(text: string): Record<string, unknown> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw wrong(`it is no JSON: ${error instanceof SyntaxError ? 'mind quotes and commas' : 'unreadable'}`);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw wrong('it must be a JSON object');
  return { ...body };
}

function names(value: unknown, member: string): readonly string[] | null {
  if (value === undefined || value === null) return null;
  const isList =
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MOST_NAMES &&
    value.every((each) => typeof each === 'string');
  if (!isList) throw wrong(`"${member}" must be null or a list of names`);
  return [...new Set(value)];
}

function wrong(why: string): Refusal {
  return new Refusal(
    400,
    'usage',
    `the request is not understood: ${why}`,
    'send e.g. {"job":"sync","sources":null,"full":false,"kinds":null}',
  );
}
