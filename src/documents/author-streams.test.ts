import { describe, expect, it } from 'vitest';
import { AuthorShares } from './author-streams.js';
import { Replica } from './replica.js';

const MIB = 1_048_576;

describe('the share of an author’s node in a document', () => {
  it('leaves streams to other nodes, however many one of them opens [T-F9]', () => {
    const shares = new AuthorShares();
    const opened = (stream: string) => {
      try {
        shares.assertStream(stream);
      } catch {
        return false;
      }
      shares.addStream(stream);
      return true;
    };
    let own = 0;
    while (own < 5_000 && opened(`agent${own % 7}@rogue/${own}`)) own++;
    expect(own).toBe(3_072);
    for (let n = 0; n < 500; n++) expect(opened(`ann@honest/${n}`)).toBe(true);
    for (let n = 0; n < 500; n++) expect(opened(`bob@other/${n}`)).toBe(true);
    expect(opened('late@rogue/1')).toBe(false);
  });

  it('leaves bytes to other nodes, however many one of them writes [T-F9]', () => {
    const shares = new AuthorShares();
    shares.addBytes('a@rogue/1', 48 * MIB);
    expect(() => shares.assertBytes('b@rogue/1', 1)).toThrow(expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }));
    expect(() => shares.assertBytes('ann@honest/1', MIB)).not.toThrow();
  });

  it('keeps a replica writable that a member has sent every stream it would take [T-F9]', { timeout: 60_000 }, () => {
    const victim = new Replica('t', 'ann@honest/1');
    let refused = 0;
    for (let n = 0; n < 4_200; n++) {
      const author = new Replica('t', `evil@rogue/${n}`);
      author.doc.getMap('m:map').set('k', n);
      try {
        victim.apply(author.take()!);
      } catch {
        refused++;
      }
    }
    expect(refused).toBe(4_200 - 3_072);
    expect(() => victim.assertWritable()).not.toThrow();
  });
});
