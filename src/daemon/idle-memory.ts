/**
 * Gives back what a job took. V8 keeps the heap of its last burst of work for the next one, and half an hour is a long
 * time to hold 60 MB for nothing: a collection as for a process that is short of memory lets go of them (30 ms).
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (how: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void;

let collect: Collect | null = null;

/** Call it when nothing is to be done. */
export function releaseMemory(): void {
  if (collect === null) {
    // V8 offers it to whoever asks at the process's start only, or in a context that is made after the flag was set.
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as Collect;
  }
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
