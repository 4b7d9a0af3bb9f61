/** Stands in for `tidemark diff` where the built product has none: `node bench/diff-points.ts MIRROR FROM TO`. */
import { systemClock } from '../src/core/clock.ts';
import { openMirror } from '../src/mirror/mirror.ts';
import { diffPoints } from '../src/state/mirror-diff.ts';

const [, , path = '', from = '', to = ''] = process.argv;
const mirror = openMirror(path, { mode: 'read', command: 'bench', clock: systemClock });
const [one, other] = [from, to].map((text) => ({ ref: `run:${text}`, run: Number(text) }));
if (one === undefined || other === undefined) throw new Error('usage: diff-points.ts MIRROR FROM TO');
const document = diffPoints(mirror, one, other, { mode: 'default', filter: { sources: ['default'] } });
process.stdout.write(`${JSON.stringify(document)}\n`);
mirror.close();
