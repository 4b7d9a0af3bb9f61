/** What people keep daily exports with: the history that they make of them, and what it takes on disk. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** A tool that keeps a directory `days` of `place`; `size` is what its repository takes when it has tidied up. */
export interface Keeper {
  readonly name: string;
  readonly command: string;
  begin(place: string): void;
  keep(place: string): void;
  size(place: string): number;
}

const RESTIC = { RESTIC_PASSWORD: 'bench', RESTIC_CACHE_DIR: 'cache' };
const AUTHOR = ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', '-c', 'gc.auto=0'];

export const KEEPERS: readonly Keeper[] = [
  {
    name: 'restic',
    command: 'restic',
    begin: (place) => {
      mkdirSync(join(place, 'days'), { recursive: true });
      run('restic', ['init', '--repo', 'repository'], { cwd: place, env: RESTIC });
    },
    keep: (place) =>
      run('restic', ['backup', '--quiet', '--repo', 'repository', 'days'], { cwd: place, env: RESTIC }),
    size: (place) => sizeOf(join(place, 'repository')),
  },
  {
    name: 'git after gc',
    command: 'git',
    begin: (place) => {
      mkdirSync(place, { recursive: true });
      run('git', ['init', '--quiet', 'days'], { cwd: place });
    },
    keep: (place) => {
      run('git', ['-C', 'days', 'add', '.'], { cwd: place });
      run('git', ['-C', 'days', ...AUTHOR, 'commit', '--quiet', '--message', 'a day'], { cwd: place });
    },
    size: (place) => {
      run('git', ['-C', 'days', 'gc', '--quiet'], { cwd: place });
      return sizeOf(join(place, 'days', '.git'));
    },
  },
];

export function isInstalled({ command }: Keeper): boolean {
  return spawnSync(command, ['version'], { stdio: 'ignore' }).error === undefined;
}

function run(
  command: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): void {
  const { status, stderr, error } = spawnSync(command, args, {
    cwd: options.cwd,
    env: { PATH: process.env['PATH'], HOME: options.cwd, ...options.env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (error !== undefined) throw error;
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${status}: ${stderr.toString()}`);
}

/** Bytes of everything below a path. */
function sizeOf(path: string): number {
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}
