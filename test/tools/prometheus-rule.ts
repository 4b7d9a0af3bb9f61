/**
 * Writes the alert rules as a PrometheusRule for the component `deploy/kubernetes/monitoring`, since Kustomize cannot
 * include a file. The chart includes `deploy/prometheus/alerts.yaml` itself.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { packageFile } from '../../src/core/package-root.ts';

/** The manifest that holds the rules of `alerts`, the text of a rule file. */
export function prometheusRule(alerts: string): string {
  const groups = alerts.slice(alerts.indexOf('groups:')).replace(/^(?=.)/gm, '  ');
  return `# Written by test/tools/prometheus-rule.ts from deploy/prometheus/alerts.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tidemark
  labels: { app.kubernetes.io/name: tidemark }
spec:
${groups}`;
}

if (import.meta.main) {
  const alerts = readFileSync(packageFile('deploy/prometheus/alerts.yaml'), 'utf8');
  writeFileSync(packageFile('deploy/kubernetes/monitoring/prometheusrule.yaml'), prometheusRule(alerts));
}
