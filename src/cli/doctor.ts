/** `tidemark doctor`: what the key reaches, and how this machine's half is. */
import { hostname } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import { clockProblems, mirrorProblems } from '../doctor/local-problems.ts';
import { type Problem, byGravity, doctorExitCode, reachProblems } from '../doctor/problems.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import { readConfig } from '../wire.ts';
import { isInteractive, print, printReason, type CommandContext, terminalWidth } from './context.ts';
import { doctorDocument } from './doctor-text.ts';
import { inspectMirror, openToInspect } from './doctor-text.ts';
import { problemReason, renderHealth, renderProblems, renderReach } from './doctor-text.ts';
import { probeSource } from './source-probe.ts';

export async function doctor(
  context: CommandContext,
  options: { readonly openapi?: string },
): Promise<ExitCode> {
  if (options.openapi !== undefined) {
    const { checkContract } = await import('./doctor-contract.ts');
    return await checkContract(context, options.openapi);
  }
  const config = readConfig(context, context.options);
  const now = systemClock.now();
  const opened = openToInspect(context, config, 'doctor');
  try {
    const health = inspectMirror(context, config, opened);
    const daemon = health.isThere
      ? findDaemon(config.mirror, { pid: context.pid, host: hostname(), now })
      : null;
    const mirror = health.damage.length === 0 ? opened.mirror : null;
    const reaches: SourceReach[] = [];
    for (const source of config.sources) {
      if (isInteractive(context)) context.stderr.write(`looking at ${source.baseUrl.host} …\n`);
      reaches.push(await probeSource(context, source, mirror, config.rateLogBeside));
    }
    const problems = byGravity([
      ...reaches.flatMap((reach) => [...reachProblems(reach), ...clockProblems(reach)]),
      ...mirrorProblems(health, { isDaemonAlive: daemon !== null, now }),
      ...config.warnings.map((warning): Problem => ({
        gravity: 'warning',
        code: 'config_warning',
        source: null,
        message: warning,
        next: '`tidemark config check` shows the configuration as it was understood',
      })),
    ]);
    if (context.options.json === true) {
      await print(context, `${JSON.stringify(doctorDocument(reaches, health, daemon, problems))}\n`);
    } else {
      const width = terminalWidth(context);
      const isVerbose = context.options.verbose === true;
      const parts = [
        ...reaches.map((reach) => renderReach(reach, { isVerbose, width })),
        renderHealth(health, { now, daemon, isVerbose }),
        renderProblems(problems.filter(({ gravity }) => isVerbose || gravity !== 'note')),
      ];
      await print(context, `${parts.join('\n\n')}\n`);
    }
    const code = doctorExitCode(reaches, problems);
    if (code !== EXIT.done) printReason(context, problemReason(problems));
    return code;
  } finally {
    opened.mirror?.close();
  }
}
