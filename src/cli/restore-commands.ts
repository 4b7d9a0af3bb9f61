/** The commands that plan, apply and prove a restore. A command's file is named after it. */
import {
  type CommandRow,
  type OptionRow,
  filterOptions,
  positiveNumber,
  wholeFileOption,
  wholeNumber,
} from './command-row.ts';
import { percentage } from './drill-options.ts';
import { secretsOption } from './record-options.ts';

const yesOption: OptionRow = {
  flags: '--yes',
  description: 'send it without asking: needed where no terminal can ask',
};

const limitOption: OptionRow = {
  flags: '--limit <n>',
  description: 'how many, newest first (default: 20)',
  parse: positiveNumber,
};

const sendOptions: readonly OptionRow[] = [
  {
    flags: '--format <format>',
    description: 'how the plan is shown (default: text)',
    choices: ['text', 'json', 'markdown', 'html'],
  },
  { flags: '--apply', description: 'send it, after asking' },
  yesOption,
];

const restoreArgument = { name: '<restore>', key: 'restore', description: 'number of the restore' };

/** Parses a share. */
function shareOf(text: string): number {
  const share = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || share > 1) throw new Error('expected a number from 0 to 1');
  return share;
}

/** A plan that is only shown may end with its reader; what is being sent may not. */
function sends({ apply, resume }: Readonly<Record<string, unknown>>): boolean {
  return apply === true || resume !== undefined;
}

export const RESTORE_COMMANDS: readonly CommandRow[] = [
  {
    name: 'restore',
    description: 'The plan that puts back what was lost or altered; --apply sends it',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        values: 'desired',
        description:
          'what is wanted: latest, baseline, run:N, snapshot:NAME, a time or file:PATH (default: latest)',
      },
    ],
    options: [
      ...filterOptions,
      {
        flags: '--field <pointer>',
        description: 'only this field of records that are there, as a JSON pointer; repeatable',
        isRepeatable: true,
      },
      {
        flags: '--prune',
        description: 'also remove what the state does not have; never organizations or projects',
      },
      wholeFileOption,
      {
        flags: '--max-removals <n>',
        description: 'remove at most so many; more, and the plan is refused (default: 0)',
        parse: wholeNumber,
      },
      {
        flags: '--max-share <share>',
        description: 'change at most this share of a kind, from 0 to 1 (default: as configured, 0.3)',
        parse: shareOf,
      },
      { flags: '--create-organizations', description: 'create organizations that are missing' },
      {
        flags: '--invite-missing',
        description: 'invite members who are missing: there is no other way back',
      },
      { flags: '--send-email', description: 'let the service mail the invites that are created' },
      { flags: '--out <file>', description: 'save the plan for `tidemark apply`' },
      ...sendOptions,
      {
        flags: '--resume [restore]',
        description: 'go on with the latest unfinished restore, or with this one',
      },
    ],
    examples: [
      'tidemark restore                                # what was lost since the last sync',
      'tidemark restore run:12 --kind batch_exports',
      'tidemark restore baseline --out plan.json && tidemark apply plan.json',
      'tidemark restore snapshot:before-cleanup --prune --max-removals 3 --apply',
      'tidemark restore --resume',
    ],
    outlivesOutput: sends,
    load: async () => (await import('./restore.ts')).restore,
  },
  {
    name: 'apply',
    description: 'Sends a saved plan, if live is still what it was made against',
    arguments: [{ name: '<plan>', key: 'plan', description: 'file of `tidemark restore --out`' }],
    options: [yesOption],
    examples: ['tidemark apply plan.json', 'tidemark apply plan.json --yes --json'],
    outlivesOutput: () => true,
    load: async () => (await import('./apply.ts')).apply,
  },
  {
    name: 'undo',
    description: 'The plan that takes a restore back; --apply sends it',
    arguments: [restoreArgument],
    options: [
      ...sendOptions,
      { flags: '--force-changed', description: 'take back also what was changed since the restore' },
    ],
    examples: ['tidemark undo 3', 'tidemark undo 3 --apply'],
    outlivesOutput: sends,
    load: async () => (await import('./undo.ts')).undo,
  },
  {
    name: 'restores',
    description: 'Past restores',
    options: [limitOption],
    examples: ['tidemark restores', 'tidemark restores show 3'],
    load: async () => (await import('./restores.ts')).restores,
    commands: [
      {
        name: 'list',
        description: 'Past restores',
        options: [limitOption],
        examples: ['tidemark restores list --limit 5'],
        load: async () => (await import('./restores.ts')).restores,
      },
      {
        name: 'show',
        description: 'One restore, step by step',
        arguments: [restoreArgument],
        examples: ['tidemark restores show 3', 'tidemark restores show 3 --json'],
        load: async () => (await import('./restores.ts')).showRestore,
      },
    ],
  },
  {
    name: 'drill',
    description: 'Practises a restore in a sandbox: what would come back, what needs a person, what is lost',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        values: 'desired',
        description: 'latest, baseline, run:N, snapshot:NAME, a time or file:PATH (default: latest)',
      },
    ],
    options: [
      {
        flags: '--damage <percent>',
        description:
          'start with the whole snapshot and damage this share of it (default: start with nothing)',
        parse: percentage,
      },
      {
        flags: '--seed <n>',
        description: 'which records are damaged, and how (default: 1)',
        parse: wholeNumber,
      },
      ...filterOptions,
      { flags: '--format <format>', description: 'how (default: text)', choices: ['text', 'json', 'html'] },
      { flags: '--output <file>', description: 'into this file instead of stdout' },
      { flags: '--runbook <file>', description: 'write what is left to do by hand, as Markdown' },
      secretsOption,
    ],
    examples: [
      'tidemark drill',
      'tidemark drill snapshot:as-approved --runbook runbook.md',
      'tidemark drill --damage 20 --seed 7 --kind batch_exports',
      'tidemark drill --format html --output drill.html',
    ],
    load: async () => (await import('./drill.ts')).drill,
  },
];
