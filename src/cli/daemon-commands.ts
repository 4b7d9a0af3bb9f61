/** The daemon: the command that stays. */
import type { CommandRow } from './command-row.ts';

export const DAEMON_COMMANDS: readonly CommandRow[] = [
  {
    name: 'daemon',
    description:
      'Runs the schedules: syncs, looks for drift, verifies, forgets, practises; answers over HTTP',
    options: [
      {
        flags: '--once',
        description: 'do what is due now and leave: for cron, systemd timers, Kubernetes CronJobs',
      },
      { flags: '--no-http', description: 'without the HTTP endpoints' },
      {
        flags: '--check',
        description:
          'ask the daemon that is at work on this mirror how it is, and leave: 0 well or in its first sync, 1 failing or none',
      },
    ],
    notes: [
      'SIGTERM and Ctrl-C end it within daemon.shutdownGraceMs, a second one at once; SIGHUP reads the configuration anew.',
      'Logs are JSON lines on stderr, and plain lines on a terminal.',
    ],
    examples: [
      'tidemark daemon',
      'tidemark daemon --once',
      'tidemark daemon --config /etc/tidemark.yaml --no-http',
    ],
    outlivesOutput: () => true,
    load: async () => {
      // Before the rest is loaded, which would be compiled in the other way.
      (await import('./daemon-memory.ts')).boundDaemonHeap();
      return (await import('./daemon.ts')).daemon;
    },
  },
  {
    name: 'daemon-job',
    isHidden: true,
    description: 'Does one job for the daemon that starts it',
    outlivesOutput: () => true,
    load: async () => (await import('./daemon-job.ts')).daemonJob,
  },
];
