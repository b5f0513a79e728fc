import { expect, it } from 'vitest';
import { Nodes } from '../../../test/nodes-fixture.js';
import { Rogue } from '../../../test/rogue-peer.js';

it('strangers that are refused again and again cannot fill the log: further ones are counted [HX.1]', async () => {
  const nodes = new Nodes();
  const [a, b] = [await nodes.start(), await nodes.start()];
  await nodes.join(b, a);
  await nodes.runtime.advance(1_000);
  const seen = nodes.events(a, 'security').length;
  const reports = () => nodes.events(a, 'security').slice(seen);
  const call = async () => {
    new Rogue(nodes).call(a).hello({ chain: null });
    await nodes.runtime.advance(0);
  };
  for (let count = 0; count < 200; count++) await call();
  expect(reports()).toHaveLength(100);
  await nodes.runtime.advance(60_000);
  await call();
  expect(reports().slice(100)).toEqual([
    expect.objectContaining({ reason: '100 more refusals of strangers were not reported one by one' }),
    expect.objectContaining({ code: 'MEMBERSHIP_REFUSED', reason: expect.stringContaining('no certificate') }),
  ]);
});
