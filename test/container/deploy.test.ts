/** The manifests under deploy/: they parse, hold what they must, and agree with the image, the daemon and each other. */
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { readCells } from '../../src/config/cells.ts';
import { serviceText } from '../../src/cli/init-config.ts';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { loadConfig } from '../../src/config/load.ts';
import { RESTORABLE } from '../../src/daemon/health/status-answers.ts';
import { METRICS } from '../../src/daemon/http/metrics.ts';
import { FLEET_METRICS } from '../../src/fleet/serve/metrics.ts';
import { DEFAULT_LIMITS } from '../../src/fleet/worker.ts';
import { anchorsOf } from '../docs/markdown.ts';
import { typeOf } from './promql.ts';

const deploy = resolve(import.meta.dirname, '../../deploy');
const read = (...path: string[]): string => readFileSync(join(deploy, ...path), 'utf8');
const variables = new Set(['TIDEMARK_CONFIG', ...OPTION_ROWS.map(({ variable }) => variable)]);

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-deploy-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

interface Compose {
  services: {
    tidemark: Record<string, unknown> & {
      environment: Record<string, string>;
      secrets: string[];
      volumes: string[];
    };
  };
  volumes: Record<string, unknown>;
  secrets: Record<string, unknown>;
}

it('compose: unprivileged, read-only, published on this machine alone, secrets as files', () => {
  const { services, volumes, secrets } = parse(read('compose.yaml')) as Compose;
  const { tidemark } = services;
  expect(tidemark).toMatchObject({
    user: '1000:1000',
    read_only: true,
    cap_drop: ['ALL'],
    security_opt: ['no-new-privileges:true'],
    ports: ['127.0.0.1:8787:8787'],
    command: ['daemon'],
  });
  expect(Object.keys(tidemark.environment).filter((name) => !variables.has(name))).toEqual([]);
  expect(Object.keys(secrets).sort()).toEqual(tidemark.secrets.toSorted());
  expect(tidemark.environment['TIDEMARK_API_KEY']).toBeUndefined();
  expect(tidemark.volumes).toContain('mirror:/data');
  expect(Object.keys(volumes)).toEqual(['mirror']);
});

it('compose of a fleet: the same fences, cells and configuration that its programs take, all that they name is there', () => {
  const { services, volumes } = parse(read('fleet', 'compose.yaml'), { merge: true }) as {
    services: Record<
      string,
      {
        image: string;
        command?: string[];
        environment: Record<string, string>;
        volumes?: string[];
        ports?: string[];
        depends_on?: Record<string, { condition: string }>;
        deploy?: { replicas: number };
        stop_grace_period?: string;
      }
    >;
    volumes: Record<string, unknown>;
  };
  const own = Object.entries(services).filter(([, { image }]) => image.startsWith('tidemark'));
  expect(own.map(([name]) => name)).toEqual(['sandbox', 'apply', 'worker', 'serve']);
  for (const [name, service] of own) {
    expect(service, name).toMatchObject({
      user: '1000:1000',
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
    const unknown = Object.keys(service.environment).filter(
      (variable) => !variables.has(variable) && !/^(AWS_|ORG_\d+_KEY$)/.test(variable),
    );
    expect(unknown, name).toEqual([]);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
  }
  for (const { depends_on: needed = {}, volumes: mounted = [] } of Object.values(services)) {
    for (const name of Object.keys(needed)) expect(Object.keys(services)).toContain(name);
    for (const [, from = ''] of mounted.join('\n').matchAll(/^(\.\/[^:]+):/gm))
      expect(read('fleet', from)).not.toBe('');
    for (const [, from = ''] of mounted.join('\n').matchAll(/^(\w[^:]*):/gm))
      expect(Object.keys(volumes)).toContain(from);
  }
  // A worker that is stopped has the time that it takes.
  const { worker, serve, apply } = services;
  expect(worker?.deploy?.replicas).toBe(2);
  expect(Number(worker?.stop_grace_period?.replace('s', '')) * 1000).toBeGreaterThan(
    DEFAULT_LIMITS.graceMs + 10_000,
  );
  expect([worker?.command, serve?.command, apply?.command?.slice(0, 2)]).toEqual([
    ['fleet', 'work'],
    ['fleet', 'serve'],
    ['fleet', 'apply'],
  ]);
  const file = join(deploy, 'fleet/tidemark.yaml');
  const { fleet } = loadConfig({ file, env: worker?.environment ?? {}, cwd: scratch(), keys: 'unused' });
  expect(fleet.storage).toMatchObject({
    type: 's3',
    bucket: 'tidemark-fleet',
    endpoint: 'http://storage:4566',
  });
  expect(JSON.parse(read('fleet', 'buckets.json'))).toEqual({ buckets: ['tidemark-fleet'] });
  const cells = readCells(join(deploy, 'fleet/cells.yaml'));
  expect(cells).toHaveLength(20);
  for (const { secret } of cells)
    expect(Object.keys(worker?.environment ?? {})).toContain(secret.replace('env:', ''));
});

/** What the comments offer is taken up: those lines stand without their mark, in place of the one of the same name above. */
function withReplica(text: string): string {
  const lines = text.split('\n');
  const isOffer = (line: string): boolean => /^\s*# .*(replica-token|TIDEMARK_REPLICA|replica:)/.test(line);
  return lines
    .flatMap((line, n) => {
      if (isOffer(line) && !line.includes('--from-file')) return [line.replace('# ', '')];
      if (/^ *# {3}file: /.test(line)) return [line.replace('# ', '')];
      const next = lines[n + 1] ?? '';
      const isReplaced =
        isOffer(next) && next.replace('# ', '').startsWith(line.slice(0, line.indexOf(':') + 1));
      return isReplaced && line.includes(':') ? [] : [line];
    })
    .join('\n');
}

it('the replica is off, and what the manifests offer in its place names a secret of its own', () => {
  expect(read('compose.yaml')).not.toMatch(/^[^#]*REPLICA/m);
  const { services, secrets } = parse(withReplica(read('compose.yaml'))) as Compose;
  const { environment, secrets: used } = services.tidemark;
  expect(environment['TIDEMARK_REPLICA_TOKEN_FILE']).toBe('/run/secrets/replica-token');
  expect(used).toEqual(['api-key', 'token', 'replica-token']);
  expect(secrets['replica-token']).toEqual({ file: './secrets/replica-token' });
  expect(secrets['token']).toEqual({ file: './secrets/token' });

  const map = read('kubernetes', 'base', 'tidemark.yaml');
  expect(parse(map)).not.toHaveProperty('replica');
  expect((parse(withReplica(map)) as { replica: object }).replica).toEqual({
    tokenFile: '/run/secrets/tidemark/replica-token',
  });

  const unit = withReplica(read('systemd', 'tidemark.service')).split('\n');
  expect(unit).toContain('LoadCredential=replica-token:/etc/tidemark/replica-token');
  expect(unit).toContain('Environment=TIDEMARK_REPLICA_TOKEN_FILE=%d/replica-token');
  expect(variables).toContain('TIDEMARK_REPLICA_TOKEN_FILE');
});

describe('systemd', () => {
  const units = readdirSync(join(deploy, 'systemd')).filter((name) => /\.(service|timer)$/.test(name));

  it('starts the daemon again until it works, also in the unit of init', () => {
    const facts = { config: '/etc/tidemark/tidemark.yaml', program: ['tidemark'], secretFiles: [] };
    const user = { name: 'tidemark', uid: 1, gid: 1 };
    for (const text of [
      read('systemd', 'tidemark.service'),
      serviceText('systemd', { ...facts, isSystem: true, user }),
      serviceText('systemd', { ...facts, isSystem: false, user }),
    ]) {
      const [unit = '', service = ''] = text.split('[Service]');
      // Without this one, systemd gives up after five starts, although the disk may have space again a minute later.
      expect(unit).toMatch(/^StartLimitIntervalSec=0$/m);
      expect(service).toMatch(/^Restart=on-failure\nRestartSec=30s$/m);
    }
  });

  it('has the units', () => {
    expect(units.sort()).toEqual(['tidemark-once.service', 'tidemark-once.timer', 'tidemark.service']);
    expect(read('systemd', 'tidemark.sysusers.conf')).toMatch(/^u tidemark - /m);
  });

  it.each(['tidemark.service', 'tidemark-once.service'])(
    '%s is fenced in and gets its key as a credential',
    (name) => {
      const lines = read('systemd', name).split('\n');
      for (const needed of [
        'User=tidemark',
        'NoNewPrivileges=yes',
        'CapabilityBoundingSet=',
        'ProtectSystem=strict',
        'ProtectHome=yes',
        'PrivateTmp=yes',
        'StateDirectory=tidemark',
        'LoadCredential=api-key:/etc/tidemark/api-key',
        'Environment=TIDEMARK_API_KEY_FILE=%d/api-key',
        'SystemCallFilter=@system-service',
        'KillMode=mixed',
      ]) {
        expect(lines).toContain(needed);
      }
      // V8 could not run.
      expect(lines.some((line) => line.startsWith('MemoryDenyWriteExecute'))).toBe(false);
      const named = lines.flatMap((line) => /^Environment=(TIDEMARK_\w+)=/.exec(line)?.[1] ?? []);
      expect(named.filter((variable) => !variables.has(variable))).toEqual([]);
    },
  );

  const isThere = spawnSync('systemd-analyze', ['--version']).status === 0;
  if (!isThere)
    console.warn('systemd-analyze is not installed: the units are not verified by systemd itself');

  it.runIf(isThere)('takes them without a word', () => {
    const directory = scratch();
    const paths = units.map((name) => {
      const path = join(directory, name);
      writeFileSync(path, read('systemd', name).replaceAll('/usr/local/bin/tidemark', '/bin/true'));
      return path;
    });
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...paths], {
      encoding: 'utf8',
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
  });
});

/** Of the daemon, and of `fleet serve`. */
const ALL_METRICS: readonly { name: string; type: string; labels: readonly string[] }[] = [
  ...METRICS,
  ...FLEET_METRICS.map(({ name, labels }) => ({ name: `tidemark_fleet_${name}`, type: 'gauge', labels })),
];

/** What an expression of PromQL reads: metrics with the labels that it selects them by, and labels that it groups by. */
function readsOf(expression: string): { metric: string; labels: string[] }[] {
  return [...expression.matchAll(/\b(tidemark_\w+)(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', selectors = '']) => ({
      metric,
      labels: [...selectors.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
    }),
  );
}

function refuseUnknown(expression: string): void {
  const rows = new Map(ALL_METRICS.map((row) => [row.name, row]));
  const reads = readsOf(expression);
  expect(reads.length, expression).toBeGreaterThan(0);
  for (const { metric, labels } of reads) {
    const row = rows.get(metric);
    expect(row?.name, `${metric} in ${expression}`).toBe(metric);
    expect(
      labels.filter((label) => ![...(row?.labels ?? []), ...SCRAPED].includes(label)),
      expression,
    ).toEqual([]);
    // A counter is read by its growth, nothing else is.
    const isGrowth = new RegExp(`(rate|increase)\\(${metric}\\b`).test(expression);
    expect(isGrowth, expression).toBe(row?.type === 'counter');
  }
  const known = new Set(reads.flatMap(({ metric }) => rows.get(metric)?.labels ?? []));
  for (const [, group = ''] of expression.matchAll(/\b(?:by|on) \(([^)]+)\)/g))
    for (const label of group.split(',')) expect([...known, ...SCRAPED], expression).toContain(label.trim());
  expect(typeOf(expression), expression).toBe('instant');
}

interface Rule {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}

/** Series differ in these, which every scrape adds, in Kubernetes the last one too: a label of ours of that name would be renamed. */
const SCRAPED = ['job', 'instance', 'namespace'];

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
if (!hasPromtool)
  console.warn('promtool is not installed: what the alert rules say to series of values is not tried');

function promtool(...args: string[]): { status: number | null; text: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' });
  return { status, text: stdout + stderr };
}

describe('metrics', () => {
  it('have no label that a scrape gives', () => {
    expect(
      ALL_METRICS.filter(({ labels }) => labels.some((label) => SCRAPED.includes(label))).map(
        ({ name }) => name,
      ),
    ).toEqual([]);
  });
});

const troubleshooting = readFileSync(join(deploy, '../docs/troubleshooting.md'), 'utf8');

interface RuleGroup {
  readonly name: string;
  readonly rules: readonly Rule[];
}

/**
 * A file for each story of `file`, with the rules that it asks for: promtool looks at no other alert, but would evaluate
 * every rule at each instant of days.
 */
function withOwnRules(file: string, groups: readonly RuleGroup[], directory: string): string[] {
  // Values such as 0x60 are 0, sixty times: all of them are strings.
  const text = readFileSync(join(import.meta.dirname, file), 'utf8');
  const { tests, ...rest } = parse(text, { schema: 'failsafe' }) as {
    rule_files: string[];
    tests: { name: string; alert_rule_test: { alertname: string }[] }[];
  };
  return tests.map((story, index) => {
    const asked = story.alert_rule_test.map(({ alertname }) => alertname);
    const own = groups.map(({ rules, ...group }) => ({
      ...group,
      rules: rules.filter(({ alert }) => asked.includes(alert)),
    }));
    expect(own.flatMap(({ rules }) => rules.map(({ alert }) => alert))).toEqual(
      expect.arrayContaining(asked),
    );
    const [rulesPath, path] = ['rules', 'story'].map((name) =>
      join(directory, `${file}-${index}-${name}.yaml`),
    ) as [string, string];
    writeFileSync(rulesPath, JSON.stringify({ groups: own }));
    writeFileSync(path, JSON.stringify({ ...rest, rule_files: [rulesPath], tests: [story] }));
    return path;
  });
}

describe.each(['alerts.yaml', 'fleet-alerts.yaml'])('Prometheus: %s', (rulesFile) => {
  const { groups } = parse(read('prometheus', rulesFile)) as { groups: RuleGroup[] };
  const rules = groups.flatMap((group) => group.rules);

  it('has rules of different names', () => {
    expect(rules.length).toBeGreaterThan(5);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });

  it.each(rules.map((rule) => [rule.alert, rule] as const))('%s reads what /metrics gives', (_name, rule) => {
    refuseUnknown(rule.expr);
    const severities = rule.labels.severity
      .replaceAll(/\{\{.*?\}\}/g, ' ')
      .trim()
      .split(/\s+/);
    expect(['info', 'warning', 'critical']).toEqual(expect.arrayContaining(severities));
    expect(rule.annotations.summary).not.toBe('');
    expect(rule.annotations.description).toMatch(/\.$/);
    const labels = new Set(
      readsOf(rule.expr).flatMap(
        ({ metric }) => ALL_METRICS.find(({ name }) => name === metric)?.labels ?? [],
      ),
    );
    const texts = `${rule.annotations.summary}${rule.annotations.description}`;
    for (const [, label = ''] of texts.matchAll(/\$labels\.(\w+)/g)) expect([...labels]).toContain(label);
  });

  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s leads to the section that explains it',
    (name, { annotations }) => {
      const [page, anchor = ''] = annotations.runbook_url.split('#');
      expect(page).toBe('https://git.example.com/tidemark/blob/main/docs/troubleshooting.md');
      const [section] = troubleshooting
        .split(/^(?=#)/m)
        .filter((part) => anchorsOf(part.split('\n')[0] ?? '').has(anchor));
      expect(section, anchor).toContain(`\`${name}\``);
    },
  );

  it.runIf(hasPromtool)('takes the rules, which fire and resolve as meant', () => {
    expect(promtool('check', 'rules', join(deploy, 'prometheus', rulesFile))).toMatchObject({
      status: 0,
    });
    const stories = globSync(rulesFile.replace('.yaml', '{,-days}.yaml'), { cwd: import.meta.dirname });
    expect(stories).toContain(rulesFile);
    const directory = scratch();
    const files = stories.flatMap((file) => withOwnRules(file, groups, directory));
    expect(files.length).toBeGreaterThan(3);
    const { status, text } = promtool('test', 'rules', ...files);
    expect(status, text).toBe(0);
  });
});

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string; legendFormat: string }[];
}

describe.each(['dashboard.json', 'fleet.json'])('Grafana: %s', (dashboardFile) => {
  const dashboard = JSON.parse(read('grafana', dashboardFile)) as {
    uid: string;
    schemaVersion: number;
    panels: Panel[];
    templating: { list: { name: string; definition?: string }[] };
  };
  const shown = dashboard.panels.filter(({ type }) => type !== 'row');

  it.each(shown.map((panel) => [panel.title, panel] as const))(
    '%s reads what /metrics gives',
    (_title, { targets = [] }) => {
      expect(targets.length).toBeGreaterThan(0);
      for (const { expr, legendFormat } of targets) {
        refuseUnknown(expr);
        const labels = readsOf(expr).flatMap(
          ({ metric }) => ALL_METRICS.find(({ name }) => name === metric)?.labels ?? [],
        );
        for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) expect(labels).toContain(label);
      }
    },
  );

  it.runIf(hasPromtool)('asks for nothing that Prometheus refuses', () => {
    const path = join(scratch(), 'rules.yaml');
    const rules = shown
      .flatMap(({ targets = [] }) => targets)
      .map(({ expr }, index) => ({
        record: `panel:${index}`,
        expr: expr.replaceAll(/\$(source|cell)/g, '.*'),
      }));
    writeFileSync(path, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    expect(promtool('check', 'rules', path)).toMatchObject({ status: 0 });
  });

  it.runIf(dashboardFile === 'dashboard.json')(
    'colours what is restorable as the dashboard of the daemon does',
    () => {
      const panel = shown.find(({ title }) => title === 'Restorable') as unknown as {
        fieldConfig: { defaults: { thresholds: { steps: { color: string; value: number | null }[] } } };
      };
      expect(panel.fieldConfig.defaults.thresholds.steps).toEqual([
        { color: 'red', value: null },
        { color: 'orange', value: RESTORABLE.some },
        { color: 'green', value: RESTORABLE.most },
      ]);
    },
  );

  it('has panels that do not lie over each other, of different numbers, and knows the variables it uses', () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_unused, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { gridPos } of dashboard.panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    const names = dashboard.templating.list.map(({ name }) => name);
    const used = [...read('grafana', dashboardFile).matchAll(/\$\{?([a-z]+)\}?/g)].map(
      ([, name = '']) => name,
    );
    expect([...new Set(used)].sort()).toEqual(names.toSorted());
  });
});
