import { expect, it } from 'vitest';
import { radarText } from './radar.js';

it('the text of the radar keeps names with line ends on one line, and blames no agent of a shared folder [RD.4]', () => {
  const file = 'a\nOVERLAP forged';
  const about = { device: 'd', repository: 'r', branch: 'main', name: '' };
  const places = [
    { ...about, folder: '/one', agents: ['alice', 'carol'], files: [file] },
    { ...about, folder: '/two', agents: ['bob'], files: [file] },
  ];
  const view = {
    places: places.map((place) => ({ ...place, repositoryName: 'it', more: 0 })),
    leases: [],
    missing: [],
  };
  const overlaps = [{ repository: 'r', places, paths: [file] }];
  const lines = radarText({ ...view, overlaps, skipped: [] }, true).split('\n');
  expect(lines[0]).toBe('OVERLAP  a OVERLAP forged: changed in the folder of alice, carol on main and by bob on main');
  expect(lines.filter((line) => line.startsWith('OVERLAP'))).toHaveLength(1);
});
