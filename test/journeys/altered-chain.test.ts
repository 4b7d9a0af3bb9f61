/** A run whose row another program took out of the middle: with its changes taken back, only the root hash of the next run shows it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const LEFT = 'the root hash of run 4 does not continue that of the run before it';
const GONE = 'the row of run 3 is gone: its hash is left';

/** Runs 2 (paused), 3 (not paused), 4 and 5 (nothing). */
async function unpaused(): Promise<Story> {
  const story = await Story.start();
  const id = await story.createExport('Nightly');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:2', '--baseline');
  writeFileSync(story.file('two.db'), readFileSync(story.file('mirror.db')));
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  for (const _run of [3, 4, 5]) await story.expectRun(0, 'sync', '--quiet');
  expect((await story.expectRun(2, 'drift')).stdout).toContain('paused');
  return story;
}

const DELETE_ROW = 'DELETE FROM runs WHERE run = 3;';
const DELETE_SEAL = `DELETE FROM row_seals WHERE "set" = 'runs' AND member = '[3]';`;
/** The records that run 3 changed are as run 2 left them. */
const TAKE_BACK = `ATTACH 'FILE' AS two; CREATE TEMP TABLE made AS SELECT record FROM records WHERE run = 3;
  REPLACE INTO records SELECT * FROM two.records WHERE record IN (SELECT record FROM made);
  DELETE FROM revisions WHERE run > 1 AND record IN (SELECT record FROM made)`;

const COMPARING: readonly (readonly string[])[] = [
  ['drift'],
  ['drift', '--live'],
  ['drift', '--from', 'run:2'],
  ['diff', 'run:2', 'latest'],
  ['diff', 'run:2', 'run:5'],
  ['diff', 'run:5', 'live'],
  ['restore', 'run:2'],
  ['restore', 'latest'],
  ['drill'],
  ['snapshots', 'pin', 'again'],
];
const PRINTING: readonly (readonly string[])[] = [
  ['runs'],
  ['audit'],
  ['show', 'batch_exports', 'Nightly'],
  ['log', 'batch_exports', 'Nightly'],
  ['blame', 'batch_exports', 'Nightly'],
  ['changes'],
  ['export', '--kind', 'batch_exports'],
  ['export', '--history', '--kind', 'batch_exports'],
];

const STILL_NAMED = 'the row of run 3 is gone, though versions of records are of it';

it.each([
  ['with all that shows it', DELETE_ROW + DELETE_SEAL + TAKE_BACK, LEFT, ''],
  ['with its hash', DELETE_ROW + DELETE_SEAL, LEFT, STILL_NAMED],
  ['alone', DELETE_ROW, GONE, STILL_NAMED],
  ['where it changed nothing', DELETE_ROW.replace('3', '4'), GONE.replace('3', '4'), ''],
])(
  'is named by whatever reads the mirror, %s',
  async (_what, sql, line, refusal) => {
    const story = await unpaused();
    const whole = readFileSync(story.file('mirror.db'));
    for (const args of [...COMPARING, ...PRINTING, ['runs', 'show', '4']]) {
      expect((await story.run(...args)).code, args.join(' ')).not.toBe(1);
      writeFileSync(story.file('mirror.db'), whole);
    }
    story.alter(sql.replace('FILE', story.file('two.db')));
    for (const args of COMPARING) {
      const { stderr, stdout } = await story.expectRun(1, ...args);
      // Of a baseline, the log that proves it is named first: without the row, its end is not proved.
      expect(stderr + stdout, args.join(' ')).toMatch(new RegExp(`(is damaged|may have been cut): ${line}`));
    }
    for (const args of PRINTING) {
      const { stderr, stdout } = await story.expectRun(1, ...args);
      // A version of which the run is gone has no time.
      const isRefused = refusal !== '' && stdout === '';
      expect(stderr, args.join(' ')).toContain(isRefused ? refusal : line);
      expect(stdout !== '' || isRefused, args.join(' ')).toBe(true);
    }
    if (line === LEFT) expect((await story.expectRun(1, 'runs', 'show', '4')).stderr).toContain(line);
    expect((await story.expectRun(1, 'status')).stdout.split('Needs attention:')[1]).toContain(line);
    expect((await story.expectRun(1, 'doctor')).stdout).toContain(line);
    expect((await story.expectRun(1, 'verify')).stdout).toContain('does not continue');
  },
  60_000,
);
