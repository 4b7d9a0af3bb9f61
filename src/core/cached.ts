/** The value in the map or, if the key is missing, what `make` returns, which is stored. */
export function cached<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  if (!map.has(key)) map.set(key, make());
  return map.get(key) as Value;
}
