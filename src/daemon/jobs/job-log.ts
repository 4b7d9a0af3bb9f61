/** What the log says of jobs: a line at each beginning and end, loud only where the outcome is another than last time. */
import type { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobRow } from '../../mirror/daemon-state.ts';

const LEVELS = {
  running: 'info',
  done: 'info',
  partial: 'warn',
  failed: 'error',
  refused: 'error',
  interrupted: 'info',
} as const;

export class JobLog {
  readonly #log: Logger;
  readonly #last = new Map<string, string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  began({ job, name, source, trigger }: JobRow): void {
    this.#log.info({ job, ...named(source), trigger }, `${name} began`);
  }

  ended(row: JobRow, error: TidemarkError | null): void {
    const { job, name, source, run, outcome, errorCode } = row;
    const key = jobKey(row);
    const state = `${outcome} ${errorCode ?? ''}`;
    const last = this.#last.get(key);
    if (outcome !== 'interrupted') this.#last.set(key, state);
    const isSame = last === state;
    const facts = {
      job,
      ...named(source),
      ...(run === null ? {} : { run }),
      outcome,
      ...(errorCode === null ? {} : { code: errorCode }),
      ...(isSame || error?.hint === undefined ? {} : { hint: error.hint }),
    };
    const why = row.error === null ? '' : `: ${row.error}`;
    const isRecovered = outcome === 'done' && last !== undefined && !last.startsWith('done');
    const message = `${name} ${isRecovered ? 'is done again' : WORDS[outcome]}${isSame ? ' as before' : ''}${why}`;
    this.#log[isSame ? 'info' : LEVELS[outcome]](
      facts,
      isSame && outcome === 'done' ? `${name} is done` : message,
    );
  }
}

const WORDS = {
  running: 'goes on',
  done: 'is done',
  partial: 'is partly done',
  failed: 'failed',
  refused: 'was refused by the service',
  interrupted: 'was interrupted',
} as const;

/** Names the same job over time. */
export function jobKey({ name, source }: Pick<JobRow, 'name' | 'source'>): string {
  return source === null ? `job:${name}` : `job:${name}:${source}`;
}

function named(source: string | null): { readonly source?: string } {
  return source === null ? {} : { source };
}
