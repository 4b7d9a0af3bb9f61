/** Takes the writer's lock of each mirror named to it at the instant given, and says what came of it. */
import { acquireWriterLock } from '../../src/mirror/lock.ts';

/** A lock that nobody refers to is collected, and given up. */
const held: unknown[] = [];

process.on('message', ({ path, at }: { path: string; at: number }) => {
  // Together with the others: a message takes longer than the race does.
  while (Date.now() < at);
  try {
    const holder = { command: 'test', pid: process.pid, host: 'here', since: '2026-03-01T00:00:00.000Z' };
    // Held until the end, so that nobody wins after somebody else has.
    held.push(acquireWriterLock(path, holder));
    process.send?.('won');
  } catch (error) {
    process.send?.(
      error instanceof Error && 'code' in error ? `${String(error.code)}: ${error.message}` : String(error),
    );
  }
});
process.send?.('ready');
