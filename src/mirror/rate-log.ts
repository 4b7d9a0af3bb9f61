/**
 * The times of the last hour's requests per key and origin, so that a restart does not forget the hour's limit. Kept by
 * minute, two bytes a request. Fits the client's `RateLog`.
 */
import type { Clock } from '../core/clock.ts';
import type { Connection } from './database.ts';
import { translated } from './database.ts';

export interface StoredRateLog {
  /** Times within the last hour, epoch milliseconds, oldest first. */
  load(): number[];
  append(times: readonly number[]): void;
}

const MINUTE_MS = 60_000;
const KEPT_MINUTES = 60;

/**
 * @param writer null where the mirror is open for reading: then times are kept in memory only
 * @param isPublishing while true, what is appended waits for `flush`: the writer's transaction is not ours
 */
export function openRateLog(
  options: {
    reader: Connection;
    writer: Connection | null;
    path: string;
    clock: Clock;
    isPublishing: () => boolean;
  },
  key: string,
): StoredRateLog & { flush(): void } {
  const { reader, writer, path, clock } = options;
  let waiting: number[] = [];
  const firstMinute = (): number => Math.floor(clock.now() / MINUTE_MS) - KEPT_MINUTES;

  const flush = (): void => {
    if (writer === null || waiting.length === 0 || options.isPublishing()) return;
    const times = waiting;
    waiting = [];
    translated(path, () => write(writer, key, times, firstMinute()));
  };

  return {
    load: () =>
      translated(path, () => {
        const rows = reader
          .prepare<[string, number], { minute: number; offsets: Buffer }>(
            `SELECT minute, offsets FROM rate_log WHERE key = ? AND minute >= ? ORDER BY minute`,
          )
          .all(key, firstMinute());
        const stored = rows.flatMap(({ minute, offsets }) => decode(minute, offsets));
        const oldest = clock.now() - KEPT_MINUTES * MINUTE_MS;
        return [...stored, ...waiting].filter((time) => time > oldest).sort((a, b) => a - b);
      }),
    append: (times) => {
      waiting.push(...times);
      if (writer === null) {
        const oldest = clock.now() - KEPT_MINUTES * MINUTE_MS;
        waiting = waiting.filter((time) => time > oldest);
      }
      flush();
    },
    flush,
  };
}

function write(writer: Connection, key: string, times: readonly number[], firstMinute: number): void {
  const byMinute = Map.groupBy(times, (time) => Math.floor(time / MINUTE_MS));
  const read = writer
    .prepare<[string, number], Buffer>(`SELECT offsets FROM rate_log WHERE key = ? AND minute = ?`)
    .pluck();
  const put = writer.prepare<[string, number, Buffer]>(`INSERT OR REPLACE INTO rate_log VALUES (?, ?, ?)`);
  writer
    .transaction(() => {
      writer.prepare<[number]>(`DELETE FROM rate_log WHERE minute < ?`).run(firstMinute);
      for (const [minute, within] of byMinute) {
        const before = read.get(key, minute) ?? Buffer.alloc(0);
        put.run(key, minute, Buffer.concat([before, encode(within)]));
      }
    })
    .immediate();
}

function encode(times: readonly number[]): Buffer {
  return Buffer.from(new Uint8Array(Uint16Array.from(times, (time) => time % MINUTE_MS).buffer));
}

function decode(minute: number, offsets: Buffer): number[] {
  const times: number[] = [];
  for (let at = 0; at + 1 < offsets.length; at += 2)
    times.push(minute * MINUTE_MS + offsets.readUInt16LE(at));
  return times;
}
