/** Proxy records of an organization (interface.md: path-only families). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { verbs, volatile } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const proxyRecordsPath = '/api/organizations/:organization_id/proxy_records/';

export const proxyRecords = defineKind({
  kind: 'proxy_records',
  title: { one: 'proxy record', many: 'proxy records' },
  path: proxyRecordsPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/domain'],
  nameFrom: ['/domain'],
  permission: { read: 'organization:read', write: 'organization:write', isDocumented: false },
  operations: verbs(proxyRecordsPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], null),
  hasDocumentedFields: false,
  fields: [
    volatile('status', 'string', 'How far its set-up has come.'),
    volatile('message', 'string', 'What its set-up last said.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    uniqueName: 'collection',
    // A new record has a new target and waits until the domain points to it.
    byPerson: [
      {
        pointer: '/target_cname',
        reason:
          'point its domain to target_cname by a CNAME record in DNS: until status is valid, the proxy is down',
        shows: '/target_cname',
        doneWhen: { pointer: '/status', value: 'valid' },
      },
    ],
  },
});
