import { expect, it } from 'vitest';
import { Nodes } from '../../../test/nodes-fixture.js';

const PLACES = 2_000;
const STRANGER = 'ab'.repeat(32);

it('one node cannot take all the places in swarms: others still get an equal part [HX.3]', async () => {
  const nodes = new Nodes();
  const alice = (await nodes.start()).agent({ id: 'alice' });
  const enter = (at: number, sponsor: string) => alice.swarms.joinSwarm(`swarm-${at}-of-${sponsor}`, 'alice', sponsor);
  for (let at = 0; at < PLACES; at++) enter(at, `eve@${STRANGER}`).catch(() => {});
  await expect(enter(PLACES, `mallory@${STRANGER}`)).rejects.toMatchObject({ code: 'SWARMS_FULL' });
  let refused: unknown;
  enter(PLACES, 'bob').catch((error: unknown) => {
    refused = error;
  });
  await nodes.runtime.advance(0);
  expect(refused).toBeUndefined();
});
