/** The texts of the files that `init` writes: the commented configuration, and what starts Tidemark. Pure. */
import { createHash } from 'node:crypto';
import { basename, dirname } from 'node:path';
import type { ChannelType } from '../config/channels.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { SecretReference } from './init-answers.ts';

/** Every half hour, the daemon's default. */
export const USUAL_SYNC = '*/30 * * * *';

/** The configuration key of a channel's secret, and how to ask for it; `ping` is an entry of `pings`. */
export const CHANNELS = {
  slack: { key: 'url', label: 'Slack', what: 'incoming webhook URL' },
  teams: { key: 'url', label: 'Microsoft Teams', what: 'webhook URL' },
  mattermost: { key: 'url', label: 'Mattermost', what: 'incoming webhook URL' },
  discord: { key: 'url', label: 'Discord', what: 'webhook URL' },
  webhook: { key: 'url', label: 'Webhook (JSON by POST)', what: 'URL' },
  email: { key: 'smtpUrl', label: 'E-mail', what: 'SMTP URL (smtps://user:password@host)' },
  pagerduty: { key: 'routingKey', label: 'PagerDuty', what: 'routing key' },
  opsgenie: { key: 'apiKey', label: 'Opsgenie', what: 'API key of the integration' },
  ping: {
    key: 'success',
    label: 'Monitor that alarms when syncs stop (Healthchecks and the like)',
    what: 'URL to call after each complete sync',
  },
} as const satisfies Partial<Record<ChannelType | 'ping', object>>;

export type InitChannelType = keyof typeof CHANNELS;

export interface ChannelChoice {
  readonly type: InitChannelType;
  readonly secret: SecretReference;
  /** Recipient of e-mail; null for the other types. */
  readonly to: string | null;
}

export interface ConfigChoices {
  readonly name: string;
  readonly url: string;
  readonly key: SecretReference;
  readonly profile: string;
  /** `off` if something else starts syncs. */
  readonly syncCron: string;
  /** Kinds to leave out. */
  readonly excluded: readonly Kind[];
  readonly channels: readonly ChannelChoice[];
  readonly targets: readonly string[];
  readonly recipients: readonly string[];
}

/** A string for YAML, which reads JSON's quoting: an answer can be nothing but text. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

function secretPair(key: string, secret: SecretReference): string {
  return secret.by === 'variable' ? `${key}: \${${secret.name}}` : `${key}File: ${quoted(secret.path)}`;
}

/** The configuration, as YAML. */
export function configText(choices: ConfigChoices): string {
  const { name, url, key, profile, syncCron, excluded } = choices;
  const kinds =
    excluded.length === 0
      ? '# kinds: { exclude: [session_recordings, recording_sharing] }'
      : `kinds: { exclude: [${excluded.join(', ')}] }`;
  return `# What Tidemark mirrors, from where, and when. \`tidemark config check\` shows how it is understood;
# docs/configuration.md and config/example.yaml have every option.

# The mirror: one SQLite file. Relative paths start at the directory of this file.
mirror: ./data/mirror.db

sources:
  - name: ${quoted(name)}
    baseUrl: ${quoted(url)}
    # The key itself is kept elsewhere, never in this file.
    ${secretPair('apiKey', key)}
    # What is known about the deployment. svc: the API as documented; restores leave out roles, projects and some
    # components. svc-writable: restores write their usual fields too. posthog: PostHog. Or the path of a file.
    profile: ${quoted(profile)}
    # Everything that the key can read, or lists of ids.
    organizations: all
    projects: all
    # Kinds that are not mirrored; \`tidemark catalog\` lists all of them. Recordings are personal data, usually many,
    # and can never be restored.
    ${kinds}
    # Requests: the profile's limits. A service without limits is read faster with 0.
    # rate: { perMinute: 480, perHour: 4800, concurrency: 4 }

# When \`tidemark daemon\`, or \`tidemark daemon --once\` from cron, does what; other commands ignore it.
schedules:
  sync: { cron: ${quoted(syncCron)}, zone: UTC, jitter: 60s }
  # Compares with the baseline, once one is set (\`tidemark snapshots baseline NAME\`): after each sync that changed
  # something, and at this time.
  drift: { cron: "0 7 * * *", zone: UTC }
  verify: { cron: "0 3 * * 0", zone: UTC }
  # Restores the mirror's newest state into a built-in sandbox: how much would come back.
  drill: { cron: "0 5 * * 1", zone: UTC }

# How much history is kept; without these lines, all of it.
# retention: { keepLast: 48, keepDaily: 30, keepWeekly: 12, keepMonthly: 24 }

${backupText(choices)}
${noticesText(choices.channels)}`;
}

function backupText({ targets, recipients }: ConfigChoices): string {
  const intro =
    '# A backup of the mirror in another place, once a day: a directory that exists, or S3-compatible storage.\n';
  if (targets.length === 0) return `${intro}# backup: { targets: [/var/backups/tidemark] }\n`;
  const encryption =
    recipients.length === 0
      ? '  # Not encrypted: they hold every value the service returned, secrets included.\n  # recipients: [age1…]\n'
      : `  recipients: [${recipients.map(quoted).join(', ')}]\n`;
  return `${intro}backup:\n  targets: [${targets.map(quoted).join(', ')}]\n${encryption}`;
}

function noticesText(all: readonly ChannelChoice[]): string {
  const channels = all.filter(({ type }) => type !== 'ping');
  const pings = all.filter(({ type }) => type === 'ping');
  const pingsText =
    pings.length === 0
      ? ''
      : `\n# Called after each complete sync, for a monitor that alarms when no call comes.\npings:\n${pings.map(({ secret }) => `  - { ${channelPair('ping', secret)} }\n`).join('')}`;
  const intro = '# Who is notified of drift, failed runs and other problems (docs/notices.md).\n';
  if (channels.length === 0)
    return `${intro}# notices:\n#   - { name: ops, type: slack, url: "\${SLACK_URL}" }\n${pingsText}`;
  const lines = channels.map(({ type, secret, to }, index) => {
    const name = index === 0 ? 'ops' : `ops-${index + 1}`;
    const address = to === null ? '' : `, from: ${quoted(`Tidemark <${to}>`)}, to: [${quoted(to)}]`;
    return `  - { name: ${name}, type: ${type}, ${channelPair(type, secret)}${address} }\n`;
  });
  return `${intro}notices:\n${lines.join('')}${pingsText}`;
}

function channelPair(type: InitChannelType, secret: SecretReference): string {
  return secretPair(CHANNELS[type].key, secret).replace(/(\$\{.*\})$/, '"$1"');
}

export type ServiceForm = 'systemd' | 'cron' | 'compose';

/** How often cron starts `tidemark daemon --once`. */
export const CRON_MINUTES = 15;

export interface ServiceFacts {
  /** Absolute path of the configuration. */
  readonly config: string;
  /** How the program is called, such as `/usr/bin/node /opt/tidemark/dist/main.js`. */
  readonly program: readonly string[];
  /** True for a unit of the machine, false for one of the user. */
  readonly isSystem: boolean;
  /** The user who may read the key file. */
  readonly user: { readonly name: string; readonly uid: number; readonly gid: number };
  /** Absolute paths of secret files that are not below the configuration's directory. */
  readonly secretFiles: readonly string[];
  /** Likewise of directories for backups. */
  readonly backupDirectories?: readonly string[];
}

/** Variables for processes that do not get those of the shell. */
export const ENVIRONMENT_FILE = 'tidemark.env';
/** The file with the dashboard's token, which the compose file can use; in the same directory. */
export const TOKEN_FILE = 'tidemark.token';

/** The beginning of the files that start Tidemark. */
export const WRITTEN_BY_INIT = '# Written by `tidemark init`';

/** Makes the image that the file for Docker Compose starts. */
export const BUILD_IMAGE = 'docker build --tag tidemark:latest .';

/** The text of the file that starts Tidemark. */
export function serviceText(form: ServiceForm, facts: ServiceFacts): string {
  const directory = dirname(facts.config);
  if (form === 'systemd') {
    // % and backslashes have a meaning in systemd.
    const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('%', '%%');
    const words = [...facts.program, 'daemon', '--config', facts.config];
    return `${WRITTEN_BY_INIT}; deploy/systemd has a hardened form for a user of its own.
[Unit]
Description=Tidemark: mirror and backup of a remote service's configuration
${facts.isSystem ? 'Wants=network-online.target\nAfter=network-online.target\n' : ''}StartLimitIntervalSec=0

[Service]
ExecStart=${words.map((word) => `"${escaped(word).replaceAll('"', '\\"').replaceAll('$', '$$$$')}"`).join(' ')}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=${escaped(directory)}
# Variables that the configuration names, a line each, as NAME=value.
EnvironmentFile=-${escaped(directory)}/${ENVIRONMENT_FILE}
KillMode=mixed
TimeoutStopSec=30s
Restart=on-failure
RestartSec=30s
RestartPreventExitStatus=4
UMask=0077
NoNewPrivileges=yes
${facts.isSystem ? `User=${facts.user.name}\n` : ''}
[Install]
WantedBy=${facts.isSystem ? 'multi-user.target' : 'default.target'}
`;
  }
  if (form === 'cron') {
    const shell = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
    const start = [...facts.program, 'daemon', '--once', '--quiet', '--config', facts.config];
    const variables = shell(`${directory}/${ENVIRONMENT_FILE}`);
    const command = `set -a; [ ! -f ${variables} ] || . ${variables}; cd ${shell(directory)} && ${start.map(shell).join(' ')}`;
    return `${WRITTEN_BY_INIT}: does what is due by the schedules of the configuration, then exits.
# Variables that the configuration names go into ${ENVIRONMENT_FILE} beside it, a line each, as NAME=value.
*/${CRON_MINUTES} * * * * ${facts.isSystem ? `${facts.user.name} ` : ''}${command.replaceAll('%', '\\%')}
`;
  }
  const mounts = [
    ...(facts.backupDirectories ?? []).map((place) => `${place}:${place}`),
    ...facts.secretFiles.map((file) => `${file}:${file}:ro`),
  ].map((mount) => `      - ${inCompose(mount)}\n`);
  return `${WRITTEN_BY_INIT}. No registry has the image: \`${BUILD_IMAGE}\`, in a checkout of the repository.
name: ${composeProject(directory)}
services:
  tidemark:
    image: tidemark:latest
    command: [daemon]
    environment:
      TIDEMARK_CONFIG: ${inCompose(facts.config)}
      # Temporary files, as large as the mirror: the image's own place for them belongs to another user.
      TMPDIR: ${inCompose(directory)}
      SQLITE_TMPDIR: ${inCompose(directory)}
      # For the dashboard and metrics, write a token that the user below may read into the file (openssl rand -hex 32), keep it
      # out of git, and uncomment these two lines and the one with the port, which is published on this machine only.
      # TIDEMARK_HTTP_LISTEN: 0.0.0.0:8787
      # TIDEMARK_HTTP_TOKEN_FILE: ${inCompose(`${directory}/${TOKEN_FILE}`)}
    # ports: ["127.0.0.1:8787:8787"]
    # Variables that the configuration names, a line each, as NAME=value.
    env_file: [{ path: ${inCompose(`${directory}/${ENVIRONMENT_FILE}`)}, required: false }]
    volumes:
      # Configuration, secrets and mirror; a backup directory elsewhere has, and needs, a line of its own.
      # Restart the container after a secret file with a line of its own was replaced.
      - ${inCompose(`${directory}:${directory}`)}
${mounts.join('')}    user: "${facts.user.uid}:${facts.user.gid}"
    read_only: true
    tmpfs: ["/tmp:size=16m,mode=1777"]
    cap_drop: [ALL]
    security_opt: [no-new-privileges:true]
    mem_limit: 512m
    pids_limit: 100
    stop_grace_period: 30s
    restart: unless-stopped
    logging:
      driver: json-file
      options: { max-size: 10m, max-file: "5" }
`;
}

/** Compose replaces variables in every value; two dollar signs stand for one. */
function inCompose(text: string): string {
  return quoted(text.replaceAll('$', '$$$$'));
}

/** With the hash of the path: if two directories had the same name, `up` in one would replace the container of the other. */
function composeProject(directory: string): string {
  const words =
    basename(directory)
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  return ['tidemark', ...words, createHash('sha256').update(directory).digest('hex').slice(0, 6)].join('-');
}
