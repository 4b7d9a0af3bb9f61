/** One exit code for several jobs (design.md, Commands: exit codes). */
import { EXIT, type ExitCode } from '../core/errors.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';

/** Gravest first. 3 goes before 2: what could not be read may hide anything. */
const GRAVITY: readonly ExitCode[] = [
  EXIT.interrupted,
  EXIT.failed,
  EXIT.usage,
  EXIT.unsafe,
  EXIT.refused,
  EXIT.partial,
  EXIT.differences,
  EXIT.done,
];

/**
 * The worst of what ran; several jobs of one name count together, as the command's own sources do: they failed, or were
 * refused, only where all of them did, and were partly done where some were.
 */
export function worstExitCode(
  ended: readonly { readonly job: JobName; readonly code: ExitCode }[],
): ExitCode {
  const together = [...Map.groupBy(ended, ({ job }) => job).values()].map((jobs) => {
    const codes = [...new Set(jobs.map(({ code }) => code))];
    const [only = EXIT.done] = codes;
    if (codes.length <= 1) return only;
    if (codes.includes(EXIT.interrupted)) return EXIT.interrupted;
    return codes.some((code) => code !== EXIT.done && code !== EXIT.differences)
      ? EXIT.partial
      : EXIT.differences;
  });
  return GRAVITY.find((code) => together.includes(code)) ?? EXIT.done;
}
