/** A store that also accepts the fields of a profile, which a deployment has beyond the documentation. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../../core/json.ts';
import { RULES } from '../rules/rules.ts';
import type { Viewer } from '../store.ts';
import { MemoryStore } from './memory-store.ts';
import { idOf, objectOf } from './tables.ts';

/** Also stores fields that only the effective definitions have, and drops those that they have under another name. */
export class ProfiledStore extends MemoryStore {
  readonly #definitions: (kind: Kind) => ResourceDefinition;

  constructor(
    effects: ConstructorParameters<typeof MemoryStore>[0],
    definitions: (kind: Kind) => ResourceDefinition,
  ) {
    super(effects);
    this.#definitions = definitions;
  }

  override create(kind: Kind, scope: Scope, body: JsonValue, viewer: Viewer): string {
    const text = super.create(kind, scope, body, viewer);
    const id = idOf(kind, objectOf(text));
    if (id === undefined) return text;
    const further = this.#further(kind, body, true);
    return this.#completed(kind, scope, id, further, this.#renamed(kind), viewer) ?? text;
  }

  override update(kind: Kind, scope: Scope, id: string, body: JsonValue, viewer: Viewer): string {
    const text = super.update(kind, scope, id, body, viewer);
    return this.#completed(kind, scope, id, this.#further(kind, body, false), [], viewer) ?? text;
  }

  /** Sets and drops members of a record, and returns it as answered; undefined if there is nothing to do. */
  #completed(
    kind: Kind,
    scope: Scope,
    id: string,
    set: JsonObject,
    dropped: readonly string[],
    viewer: Viewer,
  ): string | undefined {
    if (Object.keys(set).length === 0 && dropped.length === 0) return undefined;
    this.transaction(viewer, (writing) => {
      const body = writing.body(kind, scope, id);
      if (body === undefined) return;
      const kept = Object.entries(body).filter(([name]) => !dropped.includes(name));
      writing.put(kind, scope, id, { ...Object.fromEntries(kept), ...set });
    });
    return this.retrieve(kind, scope, id, viewer);
  }

  /** Members of a request that the definitions accept and the rules of the sandbox do not. */
  #further(kind: Kind, body: JsonValue, isCreation: boolean): JsonObject {
    const further: JsonObject = {};
    if (!isJsonObject(body)) return further;
    const known = new Set(RULES[kind].request?.fields.map(({ name }) => name));
    for (const { name, isWritable, isCreateOnly } of this.#definitions(kind).fields) {
      const value = getOwn(body, name);
      const isTaken = isCreation ? isWritable || isCreateOnly : isWritable && !isCreateOnly;
      if (value !== undefined && isTaken && !known.has(name)) setOwn(further, name, value);
    }
    return further;
  }

  #renamed(kind: Kind): string[] {
    const names = new Set(this.#definitions(kind).fields.map(({ name }) => name));
    return definitionOf(kind)
      .fields.map(({ name }) => name)
      .filter((name) => !names.has(name));
  }
}
