/** The operations of an OpenAPI 3 document by method and path, parameters by their place only. Pure. */
import { type Node, isNode, resolved } from './openapi-schema.ts';

export interface DocumentOperation {
  readonly method: string;
  /** As the document writes it, with the servers' own path before it. */
  readonly path: string;
  /** Equal for equal paths: `placeOf`. */
  readonly place: string;
  /** Schema of the JSON body of the first answer 2xx; undefined where it shows none. */
  readonly answer: unknown;
  /** Schema of the JSON body of the request. */
  readonly body: unknown;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Method and path with every parameter as `{}` and without the last slash: how two spellings of one place meet. */
export function placeOf(method: string, path: string): string {
  const segments = path
    .split('/')
    .filter((part) => part !== '')
    .map((part) => (/^:|^\{.*\}$/.test(part) ? '{}' : part));
  return `${method.toUpperCase()} /${segments.join('/')}`;
}

export function operationsOf(document: Node): DocumentOperation[] {
  const prefix = serverPath(document);
  const paths = isNode(document['paths']) ? document['paths'] : {};
  return Object.entries(paths).flatMap(([path, value]) => {
    const item = resolved(document, value);
    if (item === undefined) return [];
    const whole = path.startsWith(`${prefix}/`) ? path : `${prefix}${path}`;
    return METHODS.flatMap((method): DocumentOperation[] => {
      const operation = resolved(document, item[method]);
      if (operation === undefined) return [];
      return [
        {
          method: method.toUpperCase(),
          path: whole,
          place: placeOf(method, whole),
          answer: answerSchema(document, operation),
          body: contentSchema(document, operation['requestBody']),
        },
      ];
    });
  });
}

function serverPath(document: Node): string {
  const servers = document['servers'];
  const first: unknown = Array.isArray(servers) ? servers[0] : undefined;
  const url = isNode(first) ? first['url'] : undefined;
  if (typeof url !== 'string') return '';
  return (URL.parse(url, 'http://here.invalid')?.pathname ?? '').replace(/\/+$/, '');
}

function answerSchema(document: Node, operation: Node): unknown {
  const responses = isNode(operation['responses']) ? operation['responses'] : {};
  const status = Object.keys(responses)
    .filter((each) => /^2/.test(each))
    .toSorted()[0];
  return status === undefined ? undefined : contentSchema(document, responses[status]);
}

/** JSON where there is any, else the first that there is. */
function contentSchema(document: Node, value: unknown): unknown {
  const content = resolved(document, value)?.['content'];
  if (!isNode(content)) return undefined;
  const [first] = Object.values(content);
  const media = content['application/json'] ?? first;
  return isNode(media) ? media['schema'] : undefined;
}
