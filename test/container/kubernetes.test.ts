/**
 * What runs in a cluster, made in two ways: Kustomize under deploy/kubernetes and the chart under deploy/helm. Both are held
 * to the same assertions. Kustomize is tried with kubectl, the chart with Go and sprig (helm.go), and each object with the
 * schemas of Kubernetes, the Prometheus operator and KEDA, where TIDEMARK_TEST_TOOLS names a folder with kubernetes-models.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Ajv } from 'ajv';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { loadConfig } from '../../src/config/load.ts';
import { DEFAULT_LIMITS } from '../../src/fleet/worker.ts';
import { prometheusRule } from '../tools/prometheus-rule.ts';
import { execForm, parseDockerfile } from './dockerfile.ts';

const deploy = resolve(import.meta.dirname, '../../deploy');
const chart = join(deploy, 'helm/tidemark');
const read = (...path: string[]): string => readFileSync(join(deploy, ...path), 'utf8');
const variables = new Set(['TIDEMARK_CONFIG', ...OPTION_ROWS.map(({ variable }) => variable)]);
const image = parseDockerfile(readFileSync(resolve(deploy, '../Dockerfile'), 'utf8')).at(-1)!;
const instruction = (name: string) => image.instructions.find((each) => each.name === name)!;

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
if (!hasKubectl) console.warn('kubectl is not installed: the Kustomize folders are not built');
const gopath = '/usr/share/gocode';
const hasGo =
  spawnSync('go', ['version']).status === 0 && existsSync(join(gopath, 'src/github.com/Masterminds/sprig'));
if (!hasGo) console.warn('go and sprig are not installed: the chart is not rendered');
const tools = process.env['TIDEMARK_TEST_TOOLS'];
if (tools === undefined) console.warn('TIDEMARK_TEST_TOOLS is not set: objects are not held to the schemas');

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'tidemark-kubernetes-'));
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** What KEDA asks; test/fleet/sql.test.ts has the registry answer it. */
const PENDING_CELLS =
  "SELECT count(*) FROM tidemark_query.cells WHERE state IN ('active', 'quarantined') AND due_at <= now()";

interface Pod {
  automountServiceAccountToken: boolean;
  terminationGracePeriodSeconds: number;
  restartPolicy?: string;
  securityContext: object;
  containers: {
    args: string[];
    env: { name: string; value: string }[];
    envFrom?: object[];
    volumeMounts: { name: string; mountPath: string }[];
    [key: string]: unknown;
  }[];
  volumes: { name: string; [source: string]: unknown }[];
}

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: object };
  spec: Record<string, unknown> & { template: { spec: Pod } };
  data: Record<string, string>;
}

function manifests(text: string): Manifest[] {
  return parseAllDocuments(text).flatMap((document) => {
    expect([...document.errors, ...document.warnings]).toEqual([]);
    const value = document.toJS() as Manifest | null;
    return value === null ? [] : [value];
  });
}

function run(command: string, args: string[], env: NodeJS.ProcessEnv = process.env): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', env });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
}

function byKind(all: readonly Manifest[], kind: string): Manifest {
  const found = all.filter((each) => each.kind === kind);
  expect(found, kind).toHaveLength(1);
  return found[0]!;
}

/** Of kinds that are not Kubernetes' own, by the group of their API. */
const LIBRARIES: Readonly<Record<string, string>> = {
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
  'keda.sh': '@kubernetes-models/keda',
};

/** Each object is of a known kind and fits its schema; the types of that schema also refuse members that it does not know. */
async function fitsSchemas(all: readonly Manifest[]): Promise<void> {
  if (tools === undefined) return;
  const lines: string[] = [];
  for (const { apiVersion, kind, ...rest } of all) {
    const [group = ''] = apiVersion.split('/');
    const library = LIBRARIES[group] ?? 'kubernetes-models';
    const path = join(tools, 'node_modules', library, apiVersion, 'index.js');
    const models = (await import(path)) as Record<string, new (value: object) => { validate(): void }>;
    const Model = models[kind];
    expect(Model, `${apiVersion} ${kind}`).toBeTypeOf('function');
    expect(() => new Model!(rest).validate(), `${apiVersion} ${kind}`).not.toThrow();
    const type = `import('${library}/${apiVersion}').I${kind}`;
    lines.push(
      `export const each${lines.length}: ${type} = ${JSON.stringify({ apiVersion, kind, ...rest })};`,
    );
  }
  const file = join(tools, 'objects.ts');
  writeFileSync(file, lines.join('\n'));
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    module: ts.ModuleKind.NodeNext,
  };
  const found = ts.getPreEmitDiagnostics(ts.createProgram([file], options));
  rmSync(file);
  expect(found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([]);
}

/** The pod may do nothing but its work, and finds its volumes, configuration and secrets. */
function isConfined(pod: Pod, all: readonly Manifest[]): void {
  const [container] = pod.containers;
  expect(pod.automountServiceAccountToken).toBe(false);
  expect(pod.securityContext).toMatchObject({
    runAsNonRoot: true,
    runAsUser: Number(instruction('USER').text.split(':')[0]),
    fsGroup: 1000,
    seccompProfile: { type: 'RuntimeDefault' },
  });
  expect(container?.['securityContext']).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(10_000);
  expect(container?.env.filter(({ name }) => !variables.has(name))).toEqual([]);
  expect(container?.volumeMounts.map(({ name }) => name).sort()).toEqual(
    pod.volumes.map(({ name }) => name).sort(),
  );
  const claims = all
    .filter(({ kind }) => kind === 'PersistentVolumeClaim')
    .map(({ metadata }) => metadata.name);
  const used = pod.volumes.flatMap((volume) => {
    const claim = volume['persistentVolumeClaim'] as { claimName: string } | undefined;
    return claim === undefined ? [] : [claim.claimName];
  });
  expect(used.sort()).toEqual(claims.sort());
  const map = all.find(({ kind, data }) => kind === 'ConfigMap' && 'tidemark.yaml' in data)!;
  expect(pod.volumes.find(({ name }) => name === 'config')).toMatchObject({
    configMap: { name: map.metadata.name },
  });
}

/** The configuration is valid, and everything that it names is on a volume of the pod. */
function isConfigured(pod: Pod, all: readonly Manifest[]): void {
  const file = join(scratch, 'tidemark.yaml');
  const text = all.find(({ kind, data }) => kind === 'ConfigMap' && 'tidemark.yaml' in data)!.data[
    'tidemark.yaml'
  ]!;
  writeFileSync(file, text);
  const config = loadConfig({ file, env: {}, cwd: scratch, keys: 'unused' });
  expect(config).toMatchObject({ mirrorPath: '/data/mirror.db', http: { host: '0.0.0.0', port: 8787 } });
  const mounts = pod.containers[0]!.volumeMounts.map(({ mountPath }) => mountPath);
  expect(mounts).toEqual(expect.arrayContaining(['/data', '/etc/tidemark', '/run/secrets/tidemark']));
  for (const target of config.backup!.targets)
    if (target.type === 'directory') expect(mounts).toContain(target.path);
}

function isDaemon(all: readonly Manifest[]): void {
  const { spec } = byKind(all, 'Deployment');
  const pod = spec.template.spec;
  isConfined(pod, all);
  isConfigured(pod, all);
  expect(spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
  const [container] = pod.containers;
  expect(container).toMatchObject({
    args: ['daemon'],
    livenessProbe: { httpGet: { path: '/healthz', port: 'http' } },
    ports: [{ name: 'http', containerPort: 8787 }],
  });
  const health = instruction('HEALTHCHECK');
  const { command } = (container!['readinessProbe'] as { exec: { command: string[] } }).exec;
  expect(command).toEqual(execForm({ ...health, text: health.text.replace(/^CMD /, '') }));
  const service = byKind(all, 'Service');
  expect(service.spec).toMatchObject({ ports: [{ targetPort: 'http' }], publishNotReadyAddresses: true });
  const labels = (spec.template as unknown as { metadata: { labels: object } }).metadata.labels;
  expect(labels).toMatchObject(service.spec['selector'] as object);
  expect(labels).toMatchObject((spec['selector'] as { matchLabels: object }).matchLabels);
}

function isCronJob(all: readonly Manifest[]): void {
  const { spec } = byKind(all, 'CronJob');
  const job = (spec['jobTemplate'] as { spec: { backoffLimit: number; template: { spec: Pod } } }).spec;
  isConfined(job.template.spec, all);
  isConfigured(job.template.spec, all);
  expect(spec).toMatchObject({ concurrencyPolicy: 'Forbid' });
  expect(job.backoffLimit).toBe(0);
  expect(job.template.spec.restartPolicy).toBe('Never');
  expect(job.template.spec.containers[0]?.args).toEqual(['daemon', '--once']);
}

/** Workers that may be replaced one by one, a page of all cells, and everything that their configuration names. */
function isFleet(all: readonly Manifest[]): void {
  const deployments = all.filter(({ kind }) => kind === 'Deployment');
  const podOf = (command: string): { spec: Manifest['spec']; pod: Pod } => {
    const found = deployments.filter(({ spec }) => spec.template.spec.containers[0]?.args[1] === command);
    expect(found, command).toHaveLength(1);
    return { spec: found[0]!.spec, pod: found[0]!.spec.template.spec };
  };
  const [worker, serve] = [podOf('work'), podOf('serve')];
  const file = join(scratch, 'fleet.yaml');
  const map = all.find(({ kind, data }) => kind === 'ConfigMap' && 'tidemark.yaml' in data)!;
  writeFileSync(file, map.data['tidemark.yaml']!);
  const { fleet, http } = loadConfig({ file, env: {}, cwd: scratch, keys: 'unused' });
  expect(http).toMatchObject({ host: '0.0.0.0', port: 8787 });
  expect(fleet.databaseProblem).toContain('/run/secrets/tidemark/database-url');
  for (const { pod, spec } of [worker, serve]) {
    isConfined(pod, all);
    const { labels } = (spec.template as unknown as { metadata: { labels: object } }).metadata;
    expect(labels).toMatchObject((spec['selector'] as { matchLabels: object }).matchLabels);
  }
  const mounts = worker.pod.containers[0]!.volumeMounts.map(({ mountPath }) => mountPath);
  expect(mounts).toEqual(expect.arrayContaining([fleet.keyDirectory, '/run/secrets/tidemark']));
  expect(fleet.cache.startsWith('/data/')).toBe(true);
  expect(worker.pod.volumes.find(({ name }) => name === 'cache')).toHaveProperty('emptyDir');
  // The page has no keys of cells.
  expect(JSON.stringify(serve.pod)).not.toContain(fleet.keyDirectory);
  // What a worker needs after SIGTERM: its grace period, and the end of its processes.
  expect(worker.pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(DEFAULT_LIMITS.graceMs + 10_000);
  expect(byKind(all, 'PodDisruptionBudget').spec).toEqual({
    maxUnavailable: 1,
    selector: worker.spec['selector'],
  });
  const service = byKind(all, 'Service');
  expect(service.spec).toMatchObject({ ports: [{ targetPort: 'http' }] });
  expect(serve.spec['selector']).toEqual({ matchLabels: service.spec['selector'] });
}

/** KEDA scales the workers, which have no number of their own, by a query that the registry answers. */
function isScaled(all: readonly Manifest[]): void {
  const { spec } = byKind(all, 'ScaledObject');
  const { name } = spec['scaleTargetRef'] as { name: string };
  const worker = all.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name)!;
  expect(worker.spec.template.spec.containers[0]?.args).toEqual(['fleet', 'work']);
  expect(worker.spec).not.toHaveProperty('replicas');
  const [trigger] = spec['triggers'] as {
    type: string;
    metadata: { query: string; targetQueryValue: string };
    authenticationRef: { name: string };
  }[];
  expect(trigger).toMatchObject({ type: 'postgresql', metadata: { query: PENDING_CELLS } });
  expect(Number(trigger?.metadata.targetQueryValue)).toBeGreaterThan(0);
  const auth = byKind(all, 'TriggerAuthentication');
  expect(auth.metadata.name).toBe(trigger?.authenticationRef.name);
  const secret = worker.spec.template.spec.volumes.find(({ name: volume }) => volume === 'secrets');
  expect(auth.spec['secretTargetRef']).toEqual([
    {
      parameter: 'connection',
      name: (secret!['secret'] as { secretName: string }).secretName,
      key: 'database-url',
    },
  ]);
}

/** Prometheus finds the Service, sends the token of the secret, and loads the rules of deploy/prometheus. */
function isScraped(all: readonly Manifest[], secret: string, rules: string): void {
  const monitor = byKind(all, 'ServiceMonitor');
  const service = byKind(all, 'Service');
  expect(service.metadata.labels).toMatchObject(
    (monitor.spec['selector'] as { matchLabels: object }).matchLabels,
  );
  const ports = (service.spec['ports'] as { name: string }[]).map(({ name }) => name);
  const [endpoint] = monitor.spec['endpoints'] as { port: string; path: string; authorization: object }[];
  expect(endpoint).toMatchObject({
    path: '/metrics',
    authorization: { credentials: { name: secret, key: 'token' } },
  });
  expect(ports).toContain(endpoint?.port);
  expect(byKind(all, 'PrometheusRule').spec).toEqual(parse(read('prometheus', rules)));
}

function isMonitored(all: readonly Manifest[]): void {
  isScraped(all, 'tidemark', 'alerts.yaml');
  const service = byKind(all, 'Service');
  const ingress = byKind(all, 'Ingress');
  const rules = ingress.spec['rules'] as { http: { paths: { backend: { service: { name: string } } }[] } }[];
  expect(rules[0]?.http.paths[0]?.backend.service).toEqual({
    name: service.metadata.name,
    port: { name: 'http' },
  });
}

/** The policy is about all pods, lets others in to the port that they serve, and lets them out to DNS and HTTPS. */
function isFenced(all: readonly Manifest[]): void {
  const { spec } = byKind(all, 'NetworkPolicy');
  const { matchLabels } = spec['podSelector'] as { matchLabels: object };
  const workloads = all.filter(({ kind }) => kind === 'Deployment');
  expect(workloads.length).toBeGreaterThan(0);
  for (const workload of workloads)
    expect(
      (workload.spec.template as unknown as { metadata: { labels: object } }).metadata.labels,
    ).toMatchObject(matchLabels);
  expect(spec['policyTypes']).toEqual(['Ingress', 'Egress']);
  const [ingress] = spec['ingress'] as { from: object[]; ports: object[] }[];
  expect(ingress?.from.length).toBeGreaterThan(0);
  const served = workloads.flatMap(({ spec: { template } }) => template.spec.containers[0]?.['ports'] ?? []);
  expect(served).toEqual([{ name: 'http', containerPort: 8787 }]);
  expect(ingress?.ports).toEqual([{ protocol: 'TCP', port: 'http' }]);
  const egress = spec['egress'] as { ports: { protocol: string; port: number }[] }[];
  const ports = egress.flatMap((rule) => rule.ports.map(({ protocol, port }) => `${protocol} ${port}`));
  expect(ports).toEqual(expect.arrayContaining(['UDP 53', 'TCP 53', 'TCP 443']));
}

describe('Kustomize', () => {
  it('the rules for the operator are those of deploy/prometheus: `node test/tools/prometheus-rule.ts` writes them', () => {
    expect(read('kubernetes/monitoring/prometheusrule.yaml')).toBe(
      prometheusRule(read('prometheus/alerts.yaml')),
    );
    expect(read('kubernetes/fleet/monitoring/prometheusrule.yaml')).toBe(
      prometheusRule(read('prometheus/fleet-alerts.yaml'), 'fleet-alerts.yaml', 'tidemark-fleet'),
    );
  });

  it.runIf(hasKubectl)('fleet', async () => {
    const all = manifests(run('kubectl', ['kustomize', join(deploy, 'kubernetes/fleet')]));
    isFleet(all);
    await fitsSchemas(all);
  });

  it.runIf(hasKubectl)('fleet with the components that are offered', async () => {
    spawnSync('cp', ['-r', join(deploy, 'kubernetes'), join(scratch, 'kubernetes-fleet')]);
    const file = join(scratch, 'kubernetes-fleet/fleet/kustomization.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace('# components:', 'components:'));
    const all = manifests(run('kubectl', ['kustomize', join(scratch, 'kubernetes-fleet/fleet')]));
    isFleet(all);
    isScaled(all);
    isScraped(all, 'tidemark-fleet', 'fleet-alerts.yaml');
    isFenced(all);
    await fitsSchemas(all);
  });

  it.runIf(hasKubectl)('daemon', async () => {
    const all = manifests(run('kubectl', ['kustomize', join(deploy, 'kubernetes/daemon')]));
    isDaemon(all);
    await fitsSchemas(all);
  });

  it.runIf(hasKubectl)('cron', async () => {
    const all = manifests(run('kubectl', ['kustomize', join(deploy, 'kubernetes/cron')]));
    isCronJob(all);
    await fitsSchemas(all);
  });

  it.runIf(hasKubectl).each(['daemon', 'cron', 'fleet'])(
    '%s with the component for OpenShift leaves all ids to the cluster, and is as confined as before',
    async (folder) => {
      const copy = join(scratch, `openshift-${folder}`);
      spawnSync('cp', ['-r', join(deploy, 'kubernetes'), copy]);
      const file = join(copy, folder, 'kustomization.yaml');
      writeFileSync(file, `${readFileSync(file, 'utf8')}components: [../openshift]\n`);
      const all = manifests(run('kubectl', ['kustomize', join(copy, folder)]));
      const plain = manifests(run('kubectl', ['kustomize', join(deploy, 'kubernetes', folder)]));
      const pods = (of: readonly Manifest[]): Pod[] =>
        of.flatMap(({ kind, spec }) =>
          kind === 'Deployment'
            ? [spec.template.spec]
            : kind === 'CronJob'
              ? [(spec['jobTemplate'] as { spec: { template: { spec: Pod } } }).spec.template.spec]
              : [],
        );
      expect(pods(plain).length).toBeGreaterThan(0);
      expect(pods(all)).toEqual(
        pods(plain).map((pod) => {
          const { runAsUser, runAsGroup, fsGroup, ...kept } = pod.securityContext as Record<string, unknown>;
          expect([runAsUser, runAsGroup, fsGroup]).toEqual([1000, 1000, 1000]);
          expect(kept).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
          return { ...pod, securityContext: kept };
        }),
      );
      await fitsSchemas(all);
    },
  );

  it.runIf(hasKubectl)('with the components that are offered', async () => {
    spawnSync('cp', ['-r', join(deploy, 'kubernetes'), join(scratch, 'kubernetes')]);
    const file = join(scratch, 'kubernetes/daemon/kustomization.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace('# components:', 'components:'));
    const all = manifests(run('kubectl', ['kustomize', join(scratch, 'kubernetes/daemon')]));
    isDaemon(all);
    isMonitored(all);
    isFenced(all);
    await fitsSchemas(all);
  });
});

describe('the chart', () => {
  const validate = new Ajv().compile(JSON.parse(read('helm/tidemark/values.schema.json')) as object);
  const values = (): Record<string, unknown> =>
    parse(read('helm/tidemark/values.yaml')) as Record<string, unknown>;

  it('its values fit its schema, which refuses what is misspelled', () => {
    expect(validate(values()), JSON.stringify(validate.errors)).toBe(true);
    for (const wrong of [
      { mode: 'deamon' },
      { imagee: {} },
      { persistence: { mirror: { sise: '1Gi' } } },
      { terminationGracePeriodSeconds: 5 },
      { config: { sources: [] } },
      { config: { sources: [{}], mirror: '/tmp/mirror.db' } },
      { image: { repository: 'tidemark', digest: 'latest' } },
      // The Deployment could not find its own pods.
      { podLabels: { 'app.kubernetes.io/name': 'other' } },
      { extraVolumeMounts: [{ name: 'authority' }] },
    ])
      expect(validate({ ...values(), ...wrong }), JSON.stringify(wrong)).toBe(false);
  });

  type Values = Record<string, unknown>;

  /** As Helm lays given values over those of the chart. */
  function merge(base: Values, over: Values): Values {
    const isMap = (value: unknown): value is Values =>
      typeof value === 'object' && value !== null && !Array.isArray(value);
    const both = Object.entries(over).map(([key, value]) => {
      const below = base[key];
      return [key, isMap(value) && isMap(below) ? merge(below, value) : value] as const;
    });
    return { ...base, ...Object.fromEntries(both) };
  }

  /** The words with which `helm template` is called for such values. */
  function helmWith(over: Values): [program: string, args: string[]] {
    const merged = merge(values(), over);
    expect(validate(merged), JSON.stringify(validate.errors)).toBe(true);
    const program = join(scratch, 'helm');
    if (!existsSync(program)) {
      // Go's own cache has what was compiled before: sprig needs much of the standard library.
      const env = { ...process.env, GO111MODULE: 'off', GOPATH: gopath };
      run('go', ['build', '-o', program, join(import.meta.dirname, 'helm.go')], env);
    }
    const file = join(scratch, 'values.yaml');
    writeFileSync(file, JSON.stringify(over));
    return [program, [chart, 'tidemark', file]];
  }

  async function render(over: Values): Promise<Manifest[]> {
    const text = run(...helmWith(over));
    const [, notes = '', ...rest] = text.split(/^---\n# Source: /m);
    expect(notes).toMatch(/^NOTES\.txt\n/);
    expect(text).not.toContain('<no value>');
    const all = manifests(rest.map((part) => part.replace(/^.*\n/, '')).join('\n---\n'));
    await fitsSchemas(all);
    return all;
  }

  it.runIf(hasGo)('daemon', async () => isDaemon(await render({})));

  it.runIf(hasGo)('cron', async () => {
    const all = await render({ mode: 'cron', monitoring: { serviceMonitor: { enabled: true } } });
    isCronJob(all);
    expect(all.map(({ kind }) => kind).sort()).toEqual([
      'ConfigMap',
      'CronJob',
      'PersistentVolumeClaim',
      'PersistentVolumeClaim',
    ]);
  });

  it.runIf(hasGo)('fleet', async () => {
    isFleet(await render({ mode: 'fleet', existingSecret: 'tidemark-fleet' }));
    const all = await render({
      mode: 'fleet',
      existingSecret: 'tidemark-fleet',
      fleet: { autoscaling: { enabled: true, maxWorkers: 40 }, workers: { cacheSize: '50Gi' } },
      monitoring: {
        serviceMonitor: { enabled: true },
        prometheusRule: { enabled: true },
        grafanaDashboard: { enabled: true },
      },
    });
    isFleet(all);
    isScaled(all);
    isScraped(all, 'tidemark-fleet', 'fleet-alerts.yaml');
    const grafana = all.find(({ kind, data }) => kind === 'ConfigMap' && 'tidemark-fleet.json' in data)!;
    expect(JSON.parse(grafana.data['tidemark-fleet.json']!)).toEqual(JSON.parse(read('grafana/fleet.json')));
    expect(byKind(all, 'ScaledObject').spec).toMatchObject({ minReplicaCount: 2, maxReplicaCount: 40 });
  });

  it.runIf(hasGo)('with an ingress and everything for Prometheus and Grafana', async () => {
    const all = await render({
      ingress: { enabled: true, className: 'nginx', annotations: { a: 'b' } },
      monitoring: {
        serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
        prometheusRule: { enabled: true },
        grafanaDashboard: { enabled: true },
      },
    });
    isDaemon(all);
    isMonitored(all);
    expect(byKind(all, 'ServiceMonitor').metadata.labels).toMatchObject({ release: 'prometheus' });
    const grafana = all.find(({ kind, data }) => kind === 'ConfigMap' && 'tidemark.json' in data)!;
    expect(JSON.parse(grafana.data['tidemark.json']!)).toEqual(JSON.parse(read('grafana/dashboard.json')));
    expect(grafana.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
  });

  it.runIf(hasGo)('with a network policy', async () => {
    isFenced(await render({ networkPolicy: { enabled: true } }));
    const of = async (over: Values): Promise<Manifest> => byKind(await render(over), 'NetworkPolicy');
    const fleet = await of({ mode: 'fleet', networkPolicy: { enabled: true, egressPorts: [443, 5432] } });
    expect(JSON.stringify(fleet.spec['egress'])).toContain('{"protocol":"TCP","port":5432}');
    // Nobody has a reason to reach a job of cron.
    expect((await of({ mode: 'cron', networkPolicy: { enabled: true } })).spec['ingress']).toEqual([]);
    expect((await of({ networkPolicy: { enabled: true, from: [] } })).spec['ingress']).toEqual([]);
  });

  it.runIf(hasGo)('its alerts lead to your copy of the docs', async () => {
    const docsUrl = 'https://docs.example.com/tidemark';
    const all = await render({ monitoring: { prometheusRule: { enabled: true, docsUrl } } });
    const urls = JSON.stringify(byKind(all, 'PrometheusRule').spec).match(/"runbook_url":"[^#"]+/g) ?? [];
    expect(urls.length).toBeGreaterThan(20);
    expect(new Set(urls)).toEqual(new Set([`"runbook_url":"${docsUrl}/troubleshooting.md`]));
  });

  it.runIf(hasGo)('refuses a target on the volume that is off, and none that is elsewhere', async () => {
    const persistence = { backups: { enabled: false } };
    const elsewhere = { extraVolumeMounts: [{ name: 'nas', mountPath: '/backups/nas' }] };
    const to = (...targets: unknown[]): Values => ({ config: { backup: { targets } } });
    for (const wrong of [
      {},
      { mode: 'cron' },
      to('s3://b', '/backups/a'),
      to({ address: '/backups', keepAll: true }),
    ]) {
      const { status, stderr } = spawnSync(...helmWith({ persistence, ...wrong }), { encoding: 'utf8' });
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /config\.backup\.targets has \/backups\S*, but persistence\.backups\.enabled is false/,
      );
    }
    for (const right of [
      to('s3://b'),
      { config: { backup: null } },
      { ...to('/backups/nas/a'), ...elsewhere },
    ])
      expect(await render({ persistence, ...right })).not.toEqual([]);
    expect(await render({ mode: 'fleet', existingSecret: 'tidemark-fleet', persistence })).not.toEqual([]);
  });

  it.runIf(hasGo)('refuses a directory that is on no volume of the pod', async () => {
    const to = (...targets: unknown[]): Values => ({ config: { backup: { targets } } });
    const byVariable = (value: string): Values => ({ env: [{ name: 'TIDEMARK_BACKUP_TARGETS', value }] });
    const mounted = { extraVolumeMounts: [{ name: 'nas', mountPath: '/mnt/nas/' }] };
    for (const wrong of [
      to('/backup'),
      to('/backups', '/var/backups/tidemark'),
      to({ address: '/mnt/nas' }),
      { ...to('/mnt/nas2'), ...mounted },
      to('/database'),
      to('backups'),
      byVariable('/var/backups'),
    ]) {
      const { status, stderr } = spawnSync(...helmWith(wrong), { encoding: 'utf8' });
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /(config\.backup\.targets|TIDEMARK_BACKUP_TARGETS) has \S+, which is on no volume of the pod: mount one/,
      );
    }
    const target = '$' + '{BACKUP_TARGET}';
    for (const right of [
      to('/backups/a', '/data/backups', 's3://backups/b', target),
      { ...to({ address: '/mnt/nas/tidemark' }), ...mounted },
      { ...byVariable('s3://backups/b'), persistence: { backups: { enabled: false } } },
    ])
      expect(await render(right)).not.toEqual([]);
  });

  it.runIf(hasGo)('backups in a bucket only, by a web identity', async () => {
    const all = await render({
      config: { backup: { targets: ['s3://backups/tidemark?region=eu-central-1'] } },
      serviceAccount: {
        create: true,
        annotations: { 'eks.amazonaws.com/role-arn': 'arn:aws:iam::1:role/tidemark' },
      },
      persistence: { backups: { enabled: false } },
      envFrom: [{ secretRef: { name: 'tidemark-s3' } }],
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'a', operator: 'Exists' }],
      imagePullSecrets: [{ name: 'pull' }],
      podAnnotations: { team: 'platform' },
      cron: { activeDeadlineSeconds: 2_000_000 },
    });
    isDaemon(all);
    const pod = byKind(all, 'Deployment').spec.template.spec;
    expect(pod.containers[0]?.envFrom).toEqual([{ secretRef: { name: 'tidemark-s3' } }]);
    expect(pod).toMatchObject({
      serviceAccountName: byKind(all, 'ServiceAccount').metadata.name,
      nodeSelector: { disk: 'ssd' },
    });
  });

  /** The pods of all Deployments and CronJobs. */
  function podsOf(all: readonly Manifest[]): { metadata: { labels: object }; spec: Pod }[] {
    return all.flatMap(({ kind, spec }) => {
      if (kind === 'Deployment')
        return [spec.template as unknown as { metadata: { labels: object }; spec: Pod }];
      if (kind !== 'CronJob') return [];
      const job = spec['jobTemplate'] as { spec: { template: { metadata: { labels: object }; spec: Pod } } };
      return [job.spec.template];
    });
  }

  describe.each(['daemon', 'cron', 'fleet'])('mode %s', (mode) => {
    it.runIf(hasGo)(
      'leaves user and groups to the cluster, as the restricted SCC of OpenShift needs',
      async () => {
        const usual = podsOf(await render({ mode }));
        const pods = podsOf(
          await render({ mode, podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null } }),
        );
        expect(pods.map(({ spec }) => spec)).toEqual(
          usual.map(({ spec }) => ({
            ...spec,
            securityContext: {
              runAsNonRoot: true,
              fsGroupChangePolicy: 'OnRootMismatch',
              seccompProfile: { type: 'RuntimeDefault' },
            },
          })),
        );
        const none = podsOf(await render({ mode, podSecurityContext: null, containerSecurityContext: null }));
        for (const { spec } of none) {
          expect(spec).not.toHaveProperty('securityContext');
          expect(spec.containers[0]).not.toHaveProperty('securityContext');
        }
      },
    );

    it.runIf(hasGo)('takes ids, volumes, labels, placement and a digest', async () => {
      const digest = `sha256:${'0a'.repeat(32)}`;
      const volume = { name: 'authority', configMap: { name: 'private-authority' } };
      const mount = { name: 'authority', mountPath: '/etc/authority', readOnly: true };
      const spread = {
        maxSkew: 1,
        topologyKey: 'kubernetes.io/hostname',
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: { 'app.kubernetes.io/component': 'worker' } },
      };
      const all = await render({
        mode,
        image: { repository: 'registry.example.com/tidemark', tag: 'ignored', digest },
        podSecurityContext: { runAsUser: 1_000_680_000, fsGroup: 1_000_680_000 },
        containerSecurityContext: { readOnlyRootFilesystem: false },
        extraVolumes: [volume],
        extraVolumeMounts: [mount],
        podLabels: { team: 'platform' },
        priorityClassName: 'high',
        topologySpreadConstraints: [spread],
        tolerations: [{ key: 'a', operator: 'Exists' }],
      });
      const pods = podsOf(all);
      expect(pods).toHaveLength(mode === 'fleet' ? 2 : 1);
      for (const { metadata, spec } of pods) {
        expect(spec.securityContext).toMatchObject({ runAsUser: 1_000_680_000, runAsGroup: 1000 });
        expect(metadata.labels).toMatchObject({ team: 'platform', 'app.kubernetes.io/instance': 'tidemark' });
        expect(spec.volumes).toContainEqual(volume);
        expect(spec).toMatchObject({
          priorityClassName: 'high',
          topologySpreadConstraints: [spread],
          tolerations: [{ key: 'a', operator: 'Exists' }],
        });
        const [container] = spec.containers;
        expect(container?.volumeMounts).toContainEqual(mount);
        expect(container).toMatchObject({
          image: `registry.example.com/tidemark@${digest}`,
          securityContext: { readOnlyRootFilesystem: false, capabilities: { drop: ['ALL'] } },
        });
      }
    });
  });

  it.runIf(hasGo)('another name', async () => {
    const named = await render({ fullnameOverride: 'mirror-of-production' });
    isDaemon(named);
    expect(new Set(named.map(({ metadata }) => metadata.name))).toEqual(
      new Set(['mirror-of-production', 'mirror-of-production-backups']),
    );
    const renamed = await render({ nameOverride: 'config' });
    isDaemon(renamed);
    expect(byKind(renamed, 'Deployment').metadata.name).toBe('tidemark-config');
  });
});
