/** The catalog as one source has it: profile and overrides applied. */
export { definitionsFor } from '../config/source-definitions.ts';
