type Defined<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> };

/** The object without the members that are undefined: to spread optional ones into another object. */
export function defined<T extends object>(members: T): Defined<T> {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<T>;
}
