/** Lets what runs in a test's own process start the workers that were built for the run (`build-program.ts`). */
import { dirname } from 'node:path';
import { inject } from 'vitest';
import { useWorkersOf } from '../../src/core/package-root.ts';

useWorkersOf(dirname(inject('program')));
