/** Progress bars on stderr: one for all, one per kind under way. The one door to cli-progress. */
import cliProgress from 'cli-progress';
import type { RequestFigures } from '../api/read-client.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Clock } from '../core/clock.ts';
import type { SyncEvents } from '../sync/events.ts';
import type { CommandContext } from './context.ts';
import { count, duration } from './wording.ts';

interface KindState {
  bar: cliProgress.SingleBar;
  /** Per collection: records received and expected. */
  readonly collections: Map<string, { received: number; expected: number }>;
  open: number;
}

/** Shows a run's progress on a terminal; `stop` clears the bars. */
export function showProgress(
  context: CommandContext,
  clock: Clock,
  figures: () => RequestFigures,
): { events: SyncEvents; stop: () => void } {
  const bars = new cliProgress.MultiBar(
    {
      // Only a terminal gets bars, and there stderr is a terminal's stream.
      stream: context.stderr,
      clearOnComplete: true,
      hideCursor: true,
      fps: 8,
      barsize: 24,
      autopadding: true,
      emptyOnZero: true,
      linewrap: false,
      format: '{name} {bar} {shown} {note}',
    },
    cliProgress.Presets.shades_classic,
  );
  const startedAt = clock.monotonicMs();
  const kinds = new Map<Kind, KindState>();
  const overall = bars.create(0, 0, { name: 'all'.padEnd(26), shown: '', note: '' });

  const totals = (state: KindState): { received: number; expected: number } => {
    let received = 0;
    let expected = 0;
    for (const each of state.collections.values()) {
      received += each.received;
      expected += Math.max(each.expected, each.received);
    }
    return { received, expected };
  };

  const draw = (): void => {
    let received = 0;
    let expected = 0;
    for (const [kind, state] of kinds) {
      const sum = totals(state);
      received += sum.received;
      expected += sum.expected;
      state.bar.setTotal(sum.expected);
      state.bar.update(sum.received, {
        name: kind.padEnd(26),
        shown: `${count(sum.received)}/${count(sum.expected)}`,
        note: '',
      });
    }
    overall.setTotal(expected);
    overall.update(received, {
      name: 'all'.padEnd(26),
      shown: `${count(received)}/${count(expected)}`,
      note: note(received, expected),
    });
  };

  const note = (received: number, expected: number): string => {
    const now = figures();
    const elapsed = clock.monotonicMs() - startedAt;
    const rate = elapsed > 500 ? received / (elapsed / 1000) : 0;
    const left =
      rate > 0 && expected > received ? `, ${duration(((expected - received) / rate) * 1000)} left` : '';
    const limit =
      now.perMinute.limit > 0
        ? ` (${count(now.perMinute.used)} of ${count(now.perMinute.limit)} a minute)`
        : '';
    const waiting =
      now.waitingUntil !== undefined && now.waitingUntil > clock.now()
        ? `, waiting ${duration(now.waitingUntil - clock.now())} for the service`
        : '';
    return `${count(Math.round(rate))}/s, ${count(now.requests)} requests${limit}${left}${waiting}`;
  };

  const events: SyncEvents = {
    sweepStarted: ({ kind, scope, known }) => {
      let state = kinds.get(kind);
      if (state === undefined) {
        state = {
          bar: bars.create(0, 0, { name: kind.padEnd(26), shown: '', note: '' }),
          collections: new Map(),
          open: 0,
        };
        kinds.set(kind, state);
      }
      state.open += 1;
      state.collections.set(JSON.stringify(scope), { received: 0, expected: known });
      draw();
    },
    sweepProgressed: ({ kind, scope, received, count: expected }) => {
      const each = kinds.get(kind)?.collections.get(JSON.stringify(scope));
      if (each === undefined) return;
      each.received = received;
      if (expected !== null) each.expected = expected;
      draw();
    },
    sweepEnded: ({ kind, scope, records }) => {
      const state = kinds.get(kind);
      const each = state?.collections.get(JSON.stringify(scope));
      if (state === undefined || each === undefined) return;
      each.received = records;
      each.expected = records;
      state.open -= 1;
      draw();
    },
    publishing: () => {
      overall.update({ note: 'publishing' });
    },
  };
  return { events, stop: () => bars.stop() };
}
