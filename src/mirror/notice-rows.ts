/** Notices in the mirror: the last notified state of each subject, and deliveries by channel. */
import { and, asc, desc, eq, getTableColumns, gte, inArray, isNull, lte, notExists } from 'drizzle-orm';
import { type Connection, transact } from './database.ts';
import {
  type QueryBuilder,
  columnsWithout,
  excluded,
  param,
  paramsOf,
  prepared,
  unlessGiven,
} from './query.ts';
import { noticeDeliveries, noticeStates, notices } from './schema/daemon-tables.ts';

/** The last notified state of one subject. */
export type NoticeState = Readonly<typeof noticeStates.$inferSelect>;

export type Notice = Readonly<Omit<typeof notices.$inferSelect, 'notice'>>;

/** The result of one observation: new states, cleared subjects, and the notices with their channels. */
interface NoticeChange {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly { readonly notice: Notice; readonly channels: readonly string[] }[];
}

export interface Delivery extends DeliveryResult {
  readonly about: Notice;
}

export type DeliveryResult = Readonly<typeof noticeDeliveries.$inferSelect>;

/** How many finished notices are kept. */
const KEPT_NOTICES = 1000;

const NOTICE_STATES = prepared((db) =>
  db
    .select()
    .from(noticeStates)
    .where(unlessGiven('source', eq(noticeStates.source, param('source'))))
    .orderBy(asc(noticeStates.source), asc(noticeStates.subject)),
);

/** All, or those of a source. */
export function readNoticeStates(connection: Connection, source?: string): NoticeState[] {
  return NOTICE_STATES(connection).all({ source: source ?? null });
}

function deliveriesWithNotices(db: QueryBuilder) {
  return db
    .select({ ...getTableColumns(noticeDeliveries), about: columnsWithout(notices, 'notice') })
    .from(noticeDeliveries)
    .innerJoin(notices, eq(notices.notice, noticeDeliveries.notice))
    .$dynamic();
}

const IS_PENDING = and(isNull(noticeDeliveries.deliveredAt), isNull(noticeDeliveries.givenUpAt));

const PENDING_DELIVERIES = prepared((db) =>
  deliveriesWithNotices(db)
    .where(and(IS_PENDING, unlessGiven('now', lte(noticeDeliveries.nextAttemptAt, param('now')))))
    .orderBy(asc(noticeDeliveries.notice), asc(noticeDeliveries.channel)),
);

/** Deliveries that are neither done nor given up, oldest notice first; with `now`, only those that are due. */
export function readPendingDeliveries(connection: Connection, now?: string): Delivery[] {
  return PENDING_DELIVERIES(connection).all({ now: now ?? null });
}

const CHANNELS_REPORTED_TO = prepared((db) =>
  db
    .selectDistinct({ channel: noticeDeliveries.channel })
    .from(noticeDeliveries)
    .innerJoin(notices, eq(notices.notice, noticeDeliveries.notice))
    .where(
      and(
        eq(notices.source, param('source')),
        eq(notices.subject, param('subject')),
        isNull(noticeDeliveries.givenUpAt),
        unlessGiven('since', gte(notices.at, param('since'))),
      ),
    ),
);

/** The channels by which a subject was or will be reported; with `since` (ISO 8601), from then on. */
export function readChannelsReportedTo(
  connection: Connection,
  source: string,
  subject: string,
  since?: string,
): string[] {
  return CHANNELS_REPORTED_TO(connection)
    .all({ source, subject, since: since ?? null })
    .map(({ channel }) => channel);
}

const DELIVERIES = prepared((db) =>
  deliveriesWithNotices(db)
    .orderBy(desc(noticeDeliveries.notice), asc(noticeDeliveries.channel))
    .limit(param('limit')),
);

/** The newest deliveries whatever their result, newest first. */
export function readDeliveries(connection: Connection, limit: number): Delivery[] {
  return DELIVERIES(connection).all({ limit });
}

const RECORD_DELIVERY = prepared((db) => {
  const { notice, channel, ...rest } = paramsOf(noticeDeliveries);
  return db
    .update(noticeDeliveries)
    .set(rest)
    .where(and(eq(noticeDeliveries.notice, notice), eq(noticeDeliveries.channel, channel)));
});

export function recordDelivery(writer: Connection, result: DeliveryResult): void {
  RECORD_DELIVERY(writer).run({ ...result });
}

const SAVE_STATE = prepared((db) => {
  const { source, subject, ...rest } = getTableColumns(noticeStates);
  return db
    .insert(noticeStates)
    .values(paramsOf(noticeStates))
    .onConflictDoUpdate({ target: [source, subject], set: excluded(rest) });
});

const CLEAR_STATE = prepared((db) =>
  db
    .delete(noticeStates)
    .where(and(eq(noticeStates.source, param('source')), eq(noticeStates.subject, param('subject')))),
);

const ADD_NOTICE = prepared((db) => {
  const { at, source, subject, event, content } = paramsOf(notices);
  return db.insert(notices).values({ at, source, subject, event, content });
});

const ADD_DELIVERY = prepared((db) => {
  const { notice, channel, nextAttemptAt } = paramsOf(noticeDeliveries);
  return db.insert(noticeDeliveries).values({ notice, channel, nextAttemptAt, attempts: 0 });
});

export function saveNoticeStates(writer: Connection, states: readonly NoticeState[]): void {
  for (const state of states) SAVE_STATE(writer).run({ ...state });
}

export function recordNotices(writer: Connection, change: NoticeChange): void {
  transact(writer, (): void => {
    saveNoticeStates(writer, change.states);
    for (const { source, subject } of change.cleared) CLEAR_STATE(writer).run({ source, subject });
    for (const { notice, channels } of change.notices) {
      const { lastInsertRowid } = ADD_NOTICE(writer).run({ ...notice });
      for (const channel of channels) {
        ADD_DELIVERY(writer).run({ notice: lastInsertRowid, channel, nextAttemptAt: notice.at });
      }
    }
    DROP_OLD_DELIVERIES(writer).run();
    DROP_OLD_NOTICES(writer).run();
  });
}

const DROP_OLD_DELIVERIES = prepared((db) =>
  db.delete(noticeDeliveries).where(inArray(noticeDeliveries.notice, oldNotices(db))),
);

const DROP_OLD_NOTICES = prepared((db) => db.delete(notices).where(inArray(notices.notice, oldNotices(db))));

/** Numbers of notices without a pending delivery, without the newest ones of them. */
function oldNotices(db: QueryBuilder) {
  const pending = db
    .select({ notice: noticeDeliveries.notice })
    .from(noticeDeliveries)
    .where(and(eq(noticeDeliveries.notice, notices.notice), IS_PENDING));
  return (
    db
      .select({ notice: notices.notice })
      .from(notices)
      .where(notExists(pending))
      .orderBy(desc(notices.notice))
      // SQLite has no offset without a limit.
      .limit(Number.MAX_SAFE_INTEGER)
      .offset(KEPT_NOTICES)
  );
}
