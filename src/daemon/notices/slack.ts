/** Slack's incoming webhooks, and what understands the same: Mattermost, Rocket.Chat, Discord's `/slack` addresses. */
import type { PostRequest } from '../../api/post.ts';
import type { SlackChannel } from '../../config/notice-channel.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { renderTemplate } from '../../config/notice-template.ts';
import { type Message, linesOf, templateValues } from './message.ts';
import { withoutMentions } from './mentions.ts';

// Slack's limits: 150 for a header, 3,000 for a section, 40,000 for `text`, of which it advises to keep to 4,000.
const HEADER_LENGTH = 150;
const SECTION_LENGTH = 3000;
const TEXT_LENGTH = 4000;

const COLOURS = { critical: '🔴', high: '🟠', medium: '🟡', low: '🟢' } as const;
const WELL = '🟢';
/** What got better, however grave it was. */
const BETTER: ReadonlySet<string> = new Set<NoticeEvent>([
  'run_recovered',
  'sync_on_time',
  'removals_settled',
  'drift_resolved',
  'verify_recovered',
  'drill_recovered',
  'job_recovered',
]);

/** What is posted: `text` for notifications and for receivers that know no blocks, `blocks` for the message itself. */
export function slackRequest({ url, template }: SlackChannel, message: Message): PostRequest {
  return {
    method: 'POST',
    url,
    body: JSON.stringify(template === null ? ownForm(message) : { text: byTemplate(template, message) }),
    headers: { 'content-type': 'application/json', 'idempotency-key': message.id },
  };
}

function byTemplate(template: string, message: Message): string {
  const values = templateValues(message);
  // What is written in the template may be Slack's markup; what is put in may not.
  return cut(
    renderTemplate(template, (name) => escaped(values[name])),
    TEXT_LENGTH,
  );
}

function ownForm(message: Message): object {
  const { severity, title, hint, event, at } = message;
  const lines = linesOf(message);
  const heading = withoutMentions(`${BETTER.has(event) ? WELL : COLOURS[severity]} ${title}`);
  const below = [event, at, ...(message.run === null ? [] : [`run ${message.run}`])].join(' · ');
  const bodies = [...(lines.length === 0 ? [] : [lines.join('\n')]), ...(hint === null ? [] : [`→ ${hint}`])];
  return {
    text: cut(escaped([heading, ...lines, ...(hint === null ? [] : [`→ ${hint}`])].join('\n')), TEXT_LENGTH),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: cut(heading, HEADER_LENGTH), emoji: false } },
      ...bodies.map((text) => ({ type: 'section', text: markup(text) })),
      { type: 'context', elements: [markup(below)] },
    ],
  };
}

/** `verbatim`: names and links that a record holds are not made to work. */
function markup(text: string): object {
  return { type: 'mrkdwn', text: cut(escaped(text), SECTION_LENGTH), verbatim: true };
}

/** Without mentions, and without the three characters by which Slack knows links and markup. */
function escaped(text: string): string {
  return withoutMentions(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** At most so many UTF-16 units, never through a character or an escape. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text
    .slice(0, length - 1)
    .replace(/&[a-z]{0,3}$/, '')
    .replace(/[\ud800-\udbff]$/, '')}…`;
}
