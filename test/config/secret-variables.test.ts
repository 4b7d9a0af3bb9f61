import { describe, expect, it } from 'vitest';
import { workspace } from './workspace.ts';

const { yaml } = workspace();

describe('the variables that secrets come from', () => {
  it('are named wherever a secret refers to them, and no others', () => {
    const names = [
      'KEY_A',
      'KEY_B',
      'TOKEN',
      'REPLICA',
      'HOOK',
      'PART',
      'HMAC',
      'SMTP',
      'ARG',
      'ENV',
      'ROUTING',
      'GENIE',
    ];
    const env = Object.fromEntries(names.map((name) => [name, `value-of-${name}`]));
    const { secretVariables } = yaml(
      `sources:
  - name: a
    baseUrl: "https://\${HOST}"
    apiKey: "\${KEY_A}"
    secrets: { batch_exports: [{ match: { name: "\${NAME}" }, values: { /config/x: "\${S3}", /config/y: { file: "\${FILES}/y" } } }] }
  - { name: b, baseUrl: "https://example.com", apiKey: "x\${KEY_B}y" }
mirror: "\${DIRECTORY}/m.db"
http: { token: "\${TOKEN}" }
replica: { token: "\${REPLICA}" }
notices:
  - { name: hook, type: webhook, url: "https://\${HOST}/\${HOOK}?\${PART}", secret: "$\${NONE}\${HMAC}" }
  - { name: mail, type: email, smtpUrl: "smtps://\${SMTP}@\${HOST}", from: "\${FROM}", to: ["\${FROM}"] }
  - { name: pager, type: pagerduty, routingKey: "\${ROUTING}" }
  - { name: genie, type: opsgenie, apiKey: "\${GENIE}" }
  - { name: page, type: command, command: ["\${DIRECTORY}/page", "\${ARG}"], env: { T: "\${ENV}" } }
pings: [{ success: "https://\${HOST}/\${PING}" }]
`,
      {
        ...env,
        ...{
          HOST: 'example.com',
          S3: 's3',
          DIRECTORY: '/d',
          FILES: '/f',
          FROM: 'a@example.com',
          PING: 'p',
          NAME: 'n',
        },
        TIDEMARK_LOG_LEVEL: 'warn',
      },
    );
    // The host and the directory stand in secrets too: what is said there is the secret's.
    expect(secretVariables).toEqual([...names, 'S3', 'HOST', 'DIRECTORY', 'PING'].toSorted());
  });

  it('are none where the file refers to none', () => {
    expect(
      yaml('mirror: ./m.db\n', { TIDEMARK_BASE_URL: 'https://a.example', TIDEMARK_API_KEY: 'k' }),
    ).toMatchObject({ secretVariables: [] });
  });
});
