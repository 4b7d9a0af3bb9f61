/** The channels of `notices[]` as they are in force: checked, their secrets read. */
import type { Severity } from '../catalog/definition.ts';
import type { Secret } from '../core/secret.ts';

/** What every channel has. */
export interface Channel {
  /** Unique; deliveries are kept by it. */
  readonly name: string;
  readonly on: readonly NoticeEvent[];
  /** Null for all of them. What concerns the mirror as a whole goes to every channel. */
  readonly sources: readonly string[] | null;
  /** Least that drift must matter. */
  readonly severity: Severity;
  /** Text with `{{ name }}` for values; null for the channel's own form. */
  readonly template: string | null;
  /** Why nothing can be sent through it, such as a variable that is not set; null if it can. */
  readonly problem: string | null;
}

export interface WebhookChannel extends Channel {
  readonly type: 'webhook';
  readonly url: Secret;
  /** Signs every message; null for none. */
  readonly secret: Secret | null;
  readonly contentType: string;
}

export interface SlackChannel extends Channel {
  readonly type: 'slack';
  readonly url: Secret;
}

export interface EmailChannel extends Channel {
  readonly type: 'email';
  /** smtp: or smtps:, with credentials where the server wants them. */
  readonly smtpUrl: Secret;
  readonly from: string;
  readonly to: readonly string[];
  /** A template; null for the title. */
  readonly subject: string | null;
}

export interface CommandChannel extends Channel {
  readonly type: 'command';
  /** Program and arguments, which may hold secrets; no shell reads them. */
  readonly command: readonly Secret[];
  readonly timeoutMs: number;
  /** Variables that it gets beside the few that every command has. */
  readonly env: Readonly<Record<string, Secret>>;
  /** Where it runs: the directory of the configuration file. */
  readonly directory: string;
}

export type ChannelConfig = WebhookChannel | SlackChannel | EmailChannel | CommandChannel;

// The events of notices. Each is a transition: an unchanged state is not reported again.

/** Each event with its description, in the order of the documentation. */
export const EVENT_MEANINGS = {
  run_failed: 'A sync failed: nothing could be read, or this machine was in the way.',
  run_partial: 'A sync read less than all, and of a kind that was read before.',
  run_recovered: 'A sync read again all that it had failed to read.',
  key_refused: 'The service refused the key.',
  sync_overdue: 'No sync was complete for longer than the schedule allows.',
  sync_on_time: 'A sync was complete again, after it had been overdue.',
  removals_held: 'More records are missing than may go unasked: their removal waits.',
  removals_settled: 'No removal waits any more.',
  drift_new: 'Something drifted from the baseline.',
  drift_changed: 'Something that had drifted moved on to another value.',
  drift_resolved: 'Something that had drifted no longer does, was accepted or is ignored.',
  mirror_gone:
    'The mirror is gone from its place while the daemon lives: nothing is written until it is back.',
  mirror_back: 'The mirror is in its place again.',
  verify_failed: 'The contents of the mirror do not match the stored hashes.',
  verify_recovered: 'The mirror holds again what it sealed.',
  drill_fell: 'A practised restore brought back less than the one before.',
  drill_recovered: 'A practised restore brings back as much as before it fell.',
  job_failed: 'Another job (drift, verify, forget, drill, backup) could not do its work.',
  job_recovered: 'That job did its work again.',
  test: 'Sent by `tidemark notify test`, to every channel.',
} as const;

export type NoticeEvent = keyof typeof EVENT_MEANINGS;

export const NOTICE_EVENTS = Object.keys(EVENT_MEANINGS) as readonly NoticeEvent[];
