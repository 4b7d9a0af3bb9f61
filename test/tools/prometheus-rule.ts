/**
 * Writes the alert rules as a PrometheusRule for the components `monitoring` and `fleet/monitoring` of `deploy/kubernetes`, since Kustomize cannot
 * include a file. The chart includes the files of `deploy/prometheus` themselves.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { packageFile } from '../../src/core/package-root.ts';

/** The manifest that holds the rules of `alerts`, the text of a file in `deploy/prometheus`. */
export function prometheusRule(alerts: string, file = 'alerts.yaml', name = 'tidemark'): string {
  const groups = alerts.slice(alerts.indexOf('groups:')).replace(/^(?=.)/gm, '  ');
  return `# Written by test/tools/prometheus-rule.ts from deploy/prometheus/${file}.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ${name}
  labels: { app.kubernetes.io/name: tidemark }
spec:
${groups}`;
}

if (import.meta.main) {
  const read = (file: string): string => readFileSync(packageFile('deploy/prometheus', file), 'utf8');
  const write = (folder: string, text: string): void =>
    writeFileSync(packageFile('deploy/kubernetes', folder, 'prometheusrule.yaml'), text);
  write('monitoring', prometheusRule(read('alerts.yaml')));
  write('fleet/monitoring', prometheusRule(read('fleet-alerts.yaml'), 'fleet-alerts.yaml', 'tidemark-fleet'));
}
