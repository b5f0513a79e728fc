import { afterEach, describe, expect, it, vi } from 'vitest';
import { BrokerKey } from '../../src/nats/nkey.js';
import { Identity } from '../../src/network/membership/identity.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { NatsServer } from '../nats-server.js';
import { MailWorld, type Station, until } from './mail-world.js';

vi.setConfig({ testTimeout: 60_000 });

const runtime = systemRuntime();
let world: MailWorld | undefined;

afterEach(() => world?.end());

/** The rights of a node as far as mail is concerned; links and presence are not limited here. */
function userOf({ seed, key }: Identity): string {
  const stream = 'ecl_main_mail';
  const others = ['ecl.main.l.>', 'ecl.main.i.>', 'ecl.main.j.>', '$KV.>', '$JS.API.DIRECT.>', '$JS.FC.>', '$JS.ACK.>'];
  const buckets = ['STREAM.INFO', 'STREAM.CREATE', 'CONSUMER.CREATE', 'CONSUMER.DELETE', 'CONSUMER.INFO'].flatMap(
    (call) =>
      ['presence', 'directory'].flatMap((name) => [
        `$JS.API.${call}.KV_ecl_main_${name}`,
        `$JS.API.${call}.KV_ecl_main_${name}.>`,
      ]),
  );
  const mail = [
    `ecl.main.m.*.${key}`,
    `$JS.API.STREAM.INFO.${stream}`,
    `$JS.API.STREAM.CREATE.${stream}`,
    `$JS.API.CONSUMER.CREATE.${stream}.*.ecl.main.m.${key}.*`,
    `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`,
    `$JS.API.CONSUMER.DELETE.${stream}.*`,
  ];
  const publish = [...others, ...buckets, ...mail].map((subject) => `"${subject}"`).join(', ');
  const subscribe = ['ecl.main.l.>', 'ecl.main.j.>', `ecl.main.i.${key}.>`].map((subject) => `"${subject}"`).join(', ');
  return `{ nkey: ${new BrokerKey(seed).text}, permissions: { publish: [${publish}], subscribe: [${subscribe}] } }`;
}

describe('relayed mail', () => {
  it('needs no more rights at the broker than to its own subjects [NM.14]', async () => {
    const server = await NatsServer.start({ extra: 'authorization { users: [{ user: a, password: b }] }' });
    world = new MailWorld(server);
    const [ann, bob] = [await world.station('ann'), await world.station('bob')] as [Station, Station];
    const users = [ann, bob].map(({ folder }) => userOf(Identity.keptIn(folder, runtime)));
    await server.reload(`authorization { users: [${users.join(', ')}] }`);
    const { bobKey } = await world.join(ann, bob);
    await bob.stop();
    const id = await ann.send(bob, bobKey, 'hello');
    await until(async () => (await ann.states(id)).includes('relayed'), 'relayed');
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 1, 'it came');
    await bob.stop();
    await ann.start();
    await until(async () => (await ann.states(id)).includes('done'), 'the receipt came');
    const refused = [...ann.log, ...bob.log].filter((line) => /ecl_main_mail|ecl\.main\.m\.|mail stream/.test(line));
    expect(refused).toEqual([]);
  });
});
