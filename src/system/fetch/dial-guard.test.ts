import { describe, expect, it } from 'vitest';
import { dialable, kindsOf } from './dial-guard.js';

const NONE = kindsOf([]);
const LAN = kindsOf(['ws://192.168.1.5:7000']);

describe('an address that another node named', () => {
  it.each([
    'ws://127.0.0.1:22',
    'ws://[::1]:22',
    'ws://10.0.0.5:6379',
    'ws://169.254.169.254:80',
    'ws://2130706433:22',
    'ws://[::ffff:127.0.0.1]:22',
  ])('is not dialled at %s unless the owner uses such addresses [T-F8]', async (address) => {
    await expect(dialable(address, NONE)).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
  });

  it('is dialled where it is public, at the checked addresses [T-F8]', async () => {
    expect(await dialable('ws://93.184.215.14:7000', NONE)).toEqual(['93.184.215.14']);
    const resolve = async () => ['93.184.215.14', '93.184.215.15'];
    expect(await dialable('ws://node.example.com:7000', NONE, resolve)).toEqual(['93.184.215.14', '93.184.215.15']);
    await expect(dialable('ws://node.example.com:7000', NONE, async () => ['10.0.0.1'])).rejects.toMatchObject({
      code: 'PEER_UNREACHABLE',
    });
  });

  it('is dialled in a private network that the owner’s addresses show to be in use, and in no other [T-F8]', async () => {
    expect(await dialable('ws://10.0.0.5:7000', LAN)).toEqual(['10.0.0.5']);
    await expect(dialable('ws://127.0.0.1:22', LAN)).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
    await expect(dialable('ws://168.63.129.16:80', LAN)).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
    expect(await dialable('ws://127.0.0.1:7000', kindsOf(['ws://localhost:1']))).toEqual(['127.0.0.1']);
  });
});
