/** The rows of the commands that plan, send, undo and rehearse restores. */
import {
  asOption,
  type CommandRow,
  filterOptions,
  type OptionRow,
  positiveNumber,
  wholeNumber,
  writtenFile,
} from './command-row.ts';
import { secretsOption } from './record-options.ts';

/** Parses a share in percent: above 0, at most 100. */
function percentage(text: string): number {
  const value = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0 || value > 100) {
    throw new Error('expected a number above 0 and at most 100');
  }
  return value;
}

const yesOption: OptionRow = {
  flags: '--yes',
  description: 'do not ask for confirmation (required without a terminal)',
};
const limitOption: OptionRow = {
  flags: '--limit <n>',
  description: 'maximum number to list, newest first (default: 20)',
  parse: positiveNumber,
};
const sendOptions: readonly OptionRow[] = [
  {
    flags: '--format <format>',
    description: 'format of the plan (default: text)',
    choices: ['text', 'json', 'markdown', 'html'],
  },
  { flags: '--apply', description: 'apply the plan, after asking' },
  yesOption,
  asOption,
];
const restoreArgument = { name: '<restore>', key: 'restore', description: 'restore number, or latest' };
/** Parses a share from 0 to 1. */
function shareOf(text: string): number {
  const share = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || share > 1) throw new Error('expected a number from 0 to 1');
  return share;
}

/** True if requests are sent: then the command continues when stdout is closed. */
function sends({ apply, resume }: Readonly<Record<string, unknown>>): boolean {
  return apply === true || resume !== undefined;
}

export const RESTORE_COMMANDS: readonly CommandRow[] = [
  {
    name: 'restore',
    group: 'Restore',
    description: 'Plan how to restore what was lost; --apply sends it',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        values: 'desired',
        description:
          'what is wanted: latest, baseline, run:N, run:-1, snapshot:NAME, an age, a time or file:PATH (default: latest)',
      },
    ],
    options: [
      ...filterOptions,
      {
        flags: '--with-children',
        description:
          'also what is below the records that --kind and --id select, such as the memberships of a role; of an organization or project only what was lost with it',
      },
      {
        flags: '--field <pointer>',
        description: 'only this field of existing records, as a JSON pointer; repeatable',
        isRepeatable: true,
      },
      {
        flags: '--prune',
        description:
          'also remove records that the state does not have, up to --max-removals; never organizations or projects',
      },
      {
        flags: '--max-removals <n>',
        description: 'refuse the plan if it removes more than n records (default: 0)',
        parse: wholeNumber,
      },
      {
        flags: '--max-share <share>',
        description:
          'refuse the plan if it changes more than this share of a kind, from 0 to 1 (default: as configured, 0.3)',
        parse: shareOf,
      },
      { flags: '--create-organizations', description: 'create organizations that are missing' },
      { flags: '--invite-missing', description: 'send invites for missing members' },
      {
        flags: '--keep-accepted',
        description:
          'leave what was accepted with `tidemark drift accept`, and what a `drift.ignore` rule hides, as it is',
      },
      { flags: '--send-email', description: 'let the service send the invites by e-mail' },
      {
        flags: '--out <file>',
        description: 'save the plan to this file, for `tidemark apply`',
        parse: writtenFile,
      },
      ...sendOptions,
      {
        flags: '--resume [restore]',
        description:
          'resume the latest restore if it is unfinished and not abandoned, or this one; sends without asking, since its plan was confirmed',
      },
      {
        flags: '--abandon [restore]',
        description:
          'end the latest restore if it was interrupted, or this one if anything is left of it; asks, and sends nothing',
      },
    ],
    examples: [
      'tidemark restore                                # what was lost since the last sync',
      'tidemark restore run:12 --kind batch_exports',
      'tidemark restore baseline --keep-accepted --out plan.json && tidemark apply plan.json',
      'tidemark restore snapshot:before-cleanup --prune --max-removals 3 --apply',
      'tidemark restore --resume',
      'tidemark restore --abandon 3 --yes',
    ],
    outlivesOutput: sends,
    load: async () => (await import('./restore.ts')).restore,
  },
  {
    name: 'apply',
    group: 'Restore',
    description: 'Apply a saved plan, unless the service has changed since',
    arguments: [
      { name: '<plan>', key: 'plan', description: 'plan file written by `tidemark restore --out`' },
    ],
    options: [yesOption, asOption],
    examples: ['tidemark apply plan.json', 'tidemark apply plan.json --yes --json'],
    outlivesOutput: () => true,
    load: async () => (await import('./apply.ts')).apply,
  },
  {
    name: 'undo',
    group: 'Restore',
    description: 'Plan how to undo a restore; --apply sends it',
    arguments: [restoreArgument],
    options: [
      ...sendOptions,
      { flags: '--force-changed', description: 'also undo what was changed since the restore' },
    ],
    examples: ['tidemark undo latest', 'tidemark undo 3 --apply'],
    outlivesOutput: sends,
    load: async () => (await import('./undo.ts')).undo,
  },
  {
    name: 'restores',
    group: 'Restore',
    description: 'List past restores',
    options: [limitOption],
    examples: ['tidemark restores', 'tidemark restores show 3'],
    mirrors: { lists: ['restores', 'warnings'] },
    load: async () => (await import('./restores.ts')).restores,
    commands: [
      {
        name: 'list',
        // `tidemark restores` does the same.
        isHidden: true,
        description: 'List past restores',
        options: [limitOption],
        examples: ['tidemark restores list --limit 5'],
        mirrors: { lists: ['restores', 'warnings'] },
        load: async () => (await import('./restores.ts')).restores,
      },
      {
        name: 'show',
        description: 'Show one restore, step by step',
        arguments: [restoreArgument],
        examples: ['tidemark restores show 3', 'tidemark restores show 3 --json'],
        load: async () => (await import('./restores.ts')).showRestore,
      },
    ],
  },
  {
    name: 'drill',
    group: 'Restore',
    description: 'Rehearse a restore in a sandbox, report what comes back',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        values: 'desired',
        description:
          'latest, baseline, run:N, run:-1, snapshot:NAME, an age, a time or file:PATH (default: latest)',
      },
    ],
    options: [
      {
        flags: '--damage <percent>',
        description: 'start from the full snapshot and damage this share of it (default: start empty)',
        parse: percentage,
      },
      {
        flags: '--seed <n>',
        description: 'seed that chooses which records are damaged, and how (default: 1)',
        parse: wholeNumber,
      },
      ...filterOptions,
      {
        flags: '--format <format>',
        description: 'output format (default: that of the file which --output names, else text)',
        choices: ['text', 'json', 'html'],
      },
      { flags: '--output <file>', description: 'write to this file instead of stdout' },
      {
        flags: '--runbook <file>',
        description: 'write the remaining manual steps to this file, as Markdown',
      },
      secretsOption,
    ],
    examples: [
      'tidemark drill',
      'tidemark drill snapshot:as-approved --runbook runbook.md',
      'tidemark drill --damage 20 --seed 7 --kind batch_exports',
      'tidemark drill --format html --output drill.html',
    ],
    outlivesOutput: () => true,
    load: async () => (await import('./drill.ts')).drill,
  },
];
