/** Kinds that fill by themselves. */
export { unlistedKinds } from '../catalog/unlisted-kinds.ts';
