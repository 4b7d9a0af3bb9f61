/** Receivers of notices: a real HTTP server and a real, tiny SMTP server, which note what they were sent. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { createServer as createSocketServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What is answered: status, text, headers; `hang` never answers, `cut` ends the connection. */
export type Answer =
  | { readonly status: number; readonly text?: string; readonly headers?: Record<string, string> }
  | 'hang'
  | 'cut';

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Answers to come, the last one for ever. */
  answers: Answer[];
  /** Resolves once so many requests came. */
  came(count: number): Promise<void>;
}

export async function receiver(...answers: Answer[]): Promise<Receiver> {
  const received: Received[] = [];
  const waiting: { count: number; go: () => void }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      received.push({ method: request.method!, path: request.url!, headers: request.headers, body });
      for (const { count, go } of waiting) if (received.length >= count) go();
      const answer = self.answers.length > 1 ? self.answers.shift()! : (self.answers[0] ?? { status: 200 });
      if (answer === 'hang') return;
      if (answer === 'cut') request.socket.destroy();
      else response.writeHead(answer.status, answer.headers).end(answer.text ?? '');
    });
  });
  await listen(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const self: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    answers,
    came: (count) =>
      received.length >= count ? Promise.resolve() : new Promise((go) => waiting.push({ count, go })),
  };
  return self;
}

export interface MailServer {
  readonly port: number;
  readonly mails: { readonly from: string; readonly to: string[]; readonly text: string }[];
  readonly logins: string[];
  /** Commands to refuse, by their verb or their line, with the answer. */
  readonly refuse: Record<string, string>;
}

/** Speaks as much SMTP (RFC 5321, AUTH PLAIN of RFC 4954) as one message needs. */
export async function mailServer(options: { readonly offersAuth?: boolean } = {}): Promise<MailServer> {
  const sockets = new Set<Socket>();
  const self: MailServer = { port: 0, mails: [], logins: [], refuse: {} };
  const server = createSocketServer((socket) => {
    sockets.add(socket);
    let buffer = '';
    let from = '';
    let to: string[] = [];
    let data: string | null = null;
    const say = (line: string): void => void socket.write(`${line}\r\n`);
    const take = (line: string): void => {
      const verb = line.split(/[ :]/)[0]!.toUpperCase();
      const refusal = self.refuse[verb] ?? self.refuse[line];
      if (refusal !== undefined) say(refusal);
      else if (verb === 'EHLO') {
        if (options.offersAuth === true) say('250-AUTH PLAIN');
        say('250 SIZE 100000');
      } else if (verb === 'AUTH') {
        self.logins.push(Buffer.from(line.split(' ')[2] ?? '', 'base64').toString());
        say('235 ok');
      } else if (verb === 'MAIL') {
        from = line;
        to = [];
        say('250 ok');
      } else if (verb === 'RCPT') {
        to.push(line);
        say('250 ok');
      } else if (verb === 'DATA') {
        data = '';
        say('354 go on');
      } else if (verb === 'QUIT') {
        say('221 bye');
        socket.end();
      } else say('250 ok');
    };
    socket.setEncoding('utf8').on('error', () => undefined);
    socket.on('data', (text: string) => {
      buffer += text;
      for (let end = buffer.indexOf('\r\n'); end !== -1; end = buffer.indexOf('\r\n')) {
        const line = buffer.slice(0, end);
        buffer = buffer.slice(end + 2);
        if (data === null) take(line);
        else if (line === '.') {
          self.mails.push({ from, to, text: data });
          data = null;
          say('250 taken');
        } else data += `${line.startsWith('..') ? line.slice(1) : line}\r\n`;
      }
    });
    say('220 test ESMTP');
  });
  await listen(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return Object.assign(self, { port: (server.address() as AddressInfo).port });
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
}
