/** The command line and the daemon's jobs behind an HTTP proxy, to a service with TLS. */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { hasOpenssl, selfSigned } from '../faults/certificate.ts';
import { ConnectProxy } from '../faults/connect-proxy.ts';
import { environment, scratch, runProgram } from './harness.ts';
import { FakeService } from './service.ts';

it.runIf(hasOpenssl)('doctor, sync and the daemon reach the service through HTTPS_PROXY', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const { key, cert } = selfSigned(directory, 'svc.example');
  const secured = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const onward = request(new URL(url ?? '', service.url), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => secured.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    secured.closeAllConnections();
    secured.close();
  });
  const proxy = await ConnectProxy.start((secured.address() as AddressInfo).port);
  const env = environment('https://svc.example', directory, {
    HTTPS_PROXY: proxy.url('operator:pass-of-the-proxy'),
    NODE_EXTRA_CA_CERTS: cert,
    PATH: process.env['PATH'] ?? '',
  });

  const doctor = await runProgram(['doctor'], { env });
  expect(doctor.stdout).toContain(
    `source default: https://svc.example/, profile svc, through the proxy http://127.0.0.1:${proxy.port}`,
  );
  expect(doctor.stdout + doctor.stderr).not.toContain('pass-of-the-proxy');
  const document = JSON.parse((await runProgram(['doctor', '--json'], { env })).stdout) as {
    sources: { proxy: string | null }[];
  };
  expect(document.sources[0]?.proxy).toBe(`http://127.0.0.1:${proxy.port}`);

  const before = service.seen.length;
  const synced = await runProgram(['sync', '--quiet'], { env });
  expect(synced, synced.stderr).toMatchObject({ code: 0 });
  expect(service.seen.length).toBeGreaterThan(before);
  const once = await runProgram(['daemon', '--once'], {
    env: { ...env, TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * *' },
  });
  expect(once, once.stderr).toMatchObject({ code: 0 });
  expect(new Set(proxy.asked.map(({ what }) => what))).toEqual(new Set(['CONNECT svc.example:443']));
  expect(once.stderr).not.toContain('pass-of-the-proxy');

  const refused = { ...env, HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` };
  proxy.answer = 407;
  const failed = await runProgram(['sync', '--quiet'], { env: refused });
  expect(failed.code).toBe(1);
  expect(failed.stderr).toContain(`svc.example:443: the proxy http://127.0.0.1:${proxy.port} answered 407`);
  expect(failed.stderr).toContain('→ put the user and password of the proxy into HTTPS_PROXY');
});
