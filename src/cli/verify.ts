/** `tidemark verify`: whether the mirror holds what it sealed. */
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { verifyMirror } from '../mirror/mirror.ts';
import type { VerifyProblem } from '../mirror/verify.ts';
import { neutralise } from '../report/neutralise.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { isInteractive, print } from './context.ts';
import type { CommandContext } from './context.ts';
import { count, plural, scopeText } from './wording.ts';

/** Exit 0 when everything holds, 1 with each problem named when not. */
export async function verify(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'verify', context.pid);
  try {
    const isShown = isInteractive(context);
    const { checked, problems } = await verifyMirror(mirror, {
      onProgress: ({ records, of }) => {
        if (isShown) context.stderr.write(`\rverifying ${count(records)} of ${plural(of, 'record')} `);
      },
    });
    if (isShown) context.stderr.write('\r\u001b[K');
    const latest = mirror.runs().find(({ root }) => root !== null);
    if (context.options.json === true) {
      const document = {
        schema: 'tidemark.verify/1',
        mirror: mirror.path,
        checked,
        root: latest?.root ?? null,
        problems,
      };
      await print(context, `${JSON.stringify(document)}\n`);
    } else {
      const lines = [
        ...problems.map(problemText),
        `${problems.length === 0 ? 'verified' : `${plural(problems.length, 'problem')} found`}: ` +
          `${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, ${plural(checked.runs, 'run')}`,
        ...(latest === undefined ? [] : [`sealed up to run ${latest.run}: ${latest.root ?? ''}`]),
        ...(problems.length === 0
          ? []
          : [
              '→ restore the mirror from a copy, or move it away and run `tidemark sync` for a new one (without history)',
            ]),
      ];
      await print(context, `${lines.join('\n')}\n`);
    }
    return problems.length === 0 ? EXIT.done : EXIT.failed;
  } finally {
    mirror.close();
  }
}

function problemText({ kind, message, recordKind, scope, id, run }: VerifyProblem): string {
  const where = [
    ...(recordKind === undefined ? [] : [`${recordKind} ${id ?? ''}`.trim()]),
    ...(scope === undefined ? [] : [scopeText(scope)]),
    ...(run === undefined ? [] : [`run ${run}`]),
  ].filter((part) => part !== '');
  return neutralise(`${kind}: ${message}${where.length === 0 ? '' : ` (${where.join(', ')})`}`);
}
