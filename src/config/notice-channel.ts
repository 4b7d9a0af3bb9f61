/** The channels of `notices[]` as they are in force: checked, their secrets read. */
import type { Severity } from '../catalog/definition.ts';
import type { Secret } from '../core/secret.ts';
import type { NoticeEvent } from './notice-events.ts';

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
  /** Why nothing can be sent through it, such as a variable that is not set; null where nothing stands in the way. */
  readonly trouble: string | null;
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
