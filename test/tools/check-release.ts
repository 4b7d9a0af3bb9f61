/**
 * What `npm publish` runs first (`prepublishOnly`), and the release workflow before anything is built: a release is of a tag
 * that has the version of package.json, the chart and the changelog. `npm publish --dry-run` only prints what is missing.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { packageFile, programVersion } from '../../src/core/package-root.ts';

/** Sentences about what keeps this checkout from being released as `tag`; none when it can be. */
export function releaseProblems(env: NodeJS.ProcessEnv): string[] {
  const version = programVersion();
  const chart = parse(readFileSync(packageFile('deploy/helm/tidemark/Chart.yaml'), 'utf8')) as {
    version: string;
    appVersion: string;
  };
  const changelog = readFileSync(packageFile('CHANGELOG.md'), 'utf8');
  const heading = changelog.split('\n').find((line) => line.startsWith('## ')) ?? '';
  const problems: string[] = [];
  if (env['GITHUB_ACTIONS'] !== 'true') problems.push('packages are published by the release workflow only');
  if (env['GITHUB_REF_TYPE'] !== 'tag' || env['GITHUB_REF_NAME'] !== `v${version}`)
    problems.push(`the tag must be v${version}, as package.json has it`);
  if (chart.version !== version || chart.appVersion !== version)
    problems.push(`Chart.yaml must have version and appVersion ${version}`);
  if (!heading.startsWith(`## ${version} `) || heading.includes('unreleased'))
    problems.push(`CHANGELOG.md must begin with ${version} and its date`);
  return problems;
}

if (import.meta.main) {
  const problems = releaseProblems(process.env);
  for (const problem of problems) process.stderr.write(`not ready for release: ${problem}\n`);
  if (process.env['npm_config_dry_run'] !== 'true') process.exitCode = problems.length > 0 ? 1 : 0;
}
