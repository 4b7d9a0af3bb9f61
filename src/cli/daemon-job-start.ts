/** Starts the process of a job: this very program, with the options that say where the configuration is. */
import { fork } from 'node:child_process';
import type { StartJob } from '../daemon/jobs/child-executor.ts';
import type { CommandContext } from './context.ts';

export function jobStarter(context: CommandContext): StartJob {
  const { entry, execPath, env, cwd } = context;
  return () =>
    // stdout carries nothing; what it logs goes where the daemon's own lines go. Node's own options are handed on.
    fork(entry, argumentsOf(context), { execPath, env, cwd, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
}

/** No key is among them: the process reads configuration and environment itself. */
function argumentsOf({ options }: CommandContext): string[] {
  const { config, source = [], quiet, logLevel, color } = options;
  return [
    'daemon-job',
    ...(config === undefined ? [] : ['--config', config]),
    ...source.flatMap((name) => ['--source', name]),
    ...(quiet === true ? ['--quiet'] : []),
    ...(logLevel === undefined ? [] : ['--log-level', logLevel]),
    ...(color === false ? ['--no-color'] : []),
  ];
}
