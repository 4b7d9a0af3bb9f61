/** Notices as the mirror keeps them: what was last told of each subject, and what is owed to which channel. */
import type { JsonValue } from '../core/json.ts';
import type { Connection } from './database.ts';

/** What was last told about one subject. */
export interface NoticeState {
  /** Empty for the mirror as a whole. */
  readonly source: string;
  readonly subject: string;
  readonly state: string;
  readonly since: string;
  readonly detail: Readonly<Record<string, JsonValue>>;
}

export interface Notice {
  readonly at: string;
  readonly source: string;
  readonly subject: string;
  readonly event: string;
  readonly content: Readonly<Record<string, JsonValue>>;
}

/** What one look at the world changes: new states, forgotten subjects, and the notices of it with their channels. */
export interface NoticeChange {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly { readonly notice: Notice; readonly channels: readonly string[] }[];
}

export interface Delivery {
  readonly notice: number;
  readonly channel: string;
  readonly attempts: number;
  readonly nextAttemptAt: string;
  readonly deliveredAt: string | null;
  readonly givenUpAt: string | null;
  readonly error: string | null;
  readonly about: Notice;
}

export type DeliveryResult = Pick<
  Delivery,
  'notice' | 'channel' | 'attempts' | 'nextAttemptAt' | 'deliveredAt' | 'givenUpAt' | 'error'
>;

/** Notices that are kept after nobody waits for them any more. */
const KEPT_NOTICES = 1000;

const DELIVERY = `d.notice, d.channel, d.attempts, d.next_attempt_at AS nextAttemptAt, d.delivered_at AS deliveredAt,
  d.given_up_at AS givenUpAt, d.error, n.at, n.source, n.subject, n.event, n.content
  FROM notice_deliveries d JOIN notices n USING (notice)`;

type StoredState = Omit<NoticeState, 'detail'> & { readonly detail: string };
type StoredDelivery = Omit<Delivery, 'about'> & Omit<Notice, 'content'> & { readonly content: string };

export function readNoticeStates(connection: Connection, source: string | undefined): NoticeState[] {
  return connection
    .prepare<{ source: string | null }, StoredState>(
      `SELECT source, subject, state, since, detail FROM notice_states
       WHERE :source IS NULL OR source = :source ORDER BY source, subject`,
    )
    .all({ source: source ?? null })
    .map(({ detail, ...row }) => ({ ...row, detail: JSON.parse(detail) as NoticeState['detail'] }));
}

export function readPendingDeliveries(connection: Connection, now: string | undefined): Delivery[] {
  return connection
    .prepare<{ now: string | null }, StoredDelivery>(
      `SELECT ${DELIVERY} WHERE d.delivered_at IS NULL AND d.given_up_at IS NULL
         AND (:now IS NULL OR d.next_attempt_at <= :now) ORDER BY d.notice, d.channel`,
    )
    .all({ now: now ?? null })
    .map(deliveryOf);
}

export function recordDelivery(writer: Connection, result: DeliveryResult): void {
  writer
    .prepare(
      `UPDATE notice_deliveries SET attempts = :attempts, next_attempt_at = :nextAttemptAt,
         delivered_at = :deliveredAt, given_up_at = :givenUpAt, error = :error
       WHERE notice = :notice AND channel = :channel`,
    )
    .run(result);
}

/** Newest first. */
export function readDeliveries(connection: Connection, limit: number): Delivery[] {
  return connection
    .prepare<[number], StoredDelivery>(`SELECT ${DELIVERY} ORDER BY d.notice DESC, d.channel LIMIT ?`)
    .all(limit)
    .map(deliveryOf);
}

export function recordNotices(writer: Connection, { states, cleared, notices }: NoticeChange): void {
  const save = writer.prepare(
    `INSERT OR REPLACE INTO notice_states (source, subject, state, since, detail) VALUES (?, ?, ?, ?, ?)`,
  );
  const clear = writer.prepare('DELETE FROM notice_states WHERE source = ? AND subject = ?');
  const insert = writer.prepare(
    'INSERT INTO notices (at, source, subject, event, content) VALUES (?, ?, ?, ?, ?)',
  );
  const owe = writer.prepare(
    'INSERT INTO notice_deliveries (notice, channel, attempts, next_attempt_at) VALUES (?, ?, 0, ?)',
  );
  writer
    .transaction((): void => {
      for (const { source, subject, state, since, detail } of states) {
        save.run(source, subject, state, since, JSON.stringify(detail));
      }
      for (const { source, subject } of cleared) clear.run(source, subject);
      for (const { notice, channels } of notices) {
        const { at, source, subject, event, content } = notice;
        const { lastInsertRowid } = insert.run(at, source, subject, event, JSON.stringify(content));
        for (const channel of channels) owe.run(lastInsertRowid, channel, at);
      }
      dropOldNotices(writer);
    })
    .immediate();
}

function dropOldNotices(writer: Connection): void {
  const settled = `SELECT notice FROM notices n WHERE NOT EXISTS (
      SELECT 1 FROM notice_deliveries d WHERE d.notice = n.notice AND d.delivered_at IS NULL AND d.given_up_at IS NULL)
    ORDER BY notice DESC LIMIT -1 OFFSET ${KEPT_NOTICES}`;
  writer.prepare(`DELETE FROM notice_deliveries WHERE notice IN (${settled})`).run();
  writer.prepare(`DELETE FROM notices WHERE notice IN (${settled})`).run();
}

function deliveryOf({ at, source, subject, event, content, ...row }: StoredDelivery): Delivery {
  const about = { at, source, subject, event, content: JSON.parse(content) as Notice['content'] };
  return { ...row, about };
}
