import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type LaneMember, Lanes } from './lanes.js';

let folder: string;
let lanes: Lanes;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-lanes-'));
  lanes = new Lanes(join(folder, 'lanes'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const member = (provider: string, stopped: string[]): LaneMember => ({
  status: {
    ...{ provider, lane: '', state: 'running', pid: null, memoryBytes: null, inFlight: 0, crashes: 0, reason: null },
    jail: null,
  },
  stop: async () => void stopped.push(provider),
});

describe('lanes', () => {
  it('have a folder that only the owner can read', () => {
    const lane = lanes.open('build');
    expect(lanes.open('build')).toBe(lane);
    expect(statSync(lane.folder).mode & 0o777).toBe(0o700);
    expect(lanes.rows).toEqual([{ lane: 'build', folder: lane.folder, providers: [], closed: false }]);
  });

  it('end their own providers, and no others [FR-025-008]', async () => {
    const stopped: string[] = [];
    const [one, two] = [lanes.open('one'), lanes.open('two')];
    one.bind(member('a', stopped));
    const leave = one.bind(member('b', stopped));
    two.bind(member('c', stopped));
    leave();
    await lanes.close('one');
    expect(stopped).toEqual(['a']);
    expect(() => one.bind(member('late', stopped))).toThrow('lane "one" is closed');
    expect(lanes.rows.map(({ lane, closed }) => [lane, closed])).toEqual([
      ['one', true],
      ['two', false],
    ]);
    await lanes.closeAll();
    expect(stopped).toEqual(['a', 'c']);
  });

  it('start their providers again when they are reopened, and only then [T-E15]', async () => {
    const begun: string[] = [];
    lanes.open('one');
    lanes.onReopen('one', async () => void begun.push('a'));
    lanes.onReopen('two', async () => void begun.push('b'));
    await expect(lanes.reopen('one')).rejects.toMatchObject({ code: 'INVALID_TRANSITION' });
    await lanes.close('one');
    await lanes.reopen('one');
    expect(begun).toEqual(['a']);
    expect(lanes.rows).toMatchObject([{ lane: 'one', closed: false }]);
    await expect(lanes.reopen('none')).rejects.toMatchObject({ code: 'PROVIDER_NOT_FOUND' });
  });

  it.each(['..', '', 'a/b', '.hidden', 'x'.repeat(65)])('cannot be called "%s"', (id) => {
    expect(() => lanes.open(id)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });

  it('are refused without a usable folder, and beyond their number', async () => {
    writeFileSync(join(folder, 'file'), '');
    const nowhere = new Lanes(join(folder, 'file'));
    expect(() => nowhere.open('one')).toThrow(expect.objectContaining({ code: 'DATA_FOLDER' }));
    for (let n = 0; n < 256; n++) lanes.open(`lane-${n}`);
    expect(() => lanes.open('more')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    await expect(lanes.close('none')).rejects.toMatchObject({ code: 'PROVIDER_NOT_FOUND' });
  });
});
