import { describe, expect, it } from 'vitest';
import {
  type DirtyPlace,
  NO_RADAR,
  type RadarEffect,
  type RadarEvent,
  type RadarState,
  step,
} from './radar-machine.js';

const REPOSITORY = 'r';

const place = (device: string, files: readonly string[], more: Partial<DirtyPlace> = {}): DirtyPlace => {
  return {
    device,
    folder: `/${device}`,
    repository: REPOSITORY,
    branch: 'main',
    agents: [`agent@${device}`],
    files,
    ...more,
  };
};

function run(events: readonly RadarEvent[]): { state: RadarState; effects: RadarEffect[] } {
  const effects: RadarEffect[] = [];
  let state = NO_RADAR;
  for (const event of events) {
    const next = step(state, event);
    state = next.state;
    effects.push(...next.effects);
  }
  return { state, effects };
}

describe('the radar', () => {
  it('reports a file that is changed in two worktrees once, and again only for further files [RD.1]', () => {
    const { effects } = run([
      { type: 'place', place: place('a', ['x', 'y']) },
      { type: 'place', place: place('b', ['x']) },
      { type: 'place', place: place('b', ['x', 'z'], { branch: 'other' }) },
      { type: 'place', place: place('b', ['x', 'y', 'z']) },
      { type: 'place', place: place('b', []) },
      { type: 'place', place: place('a', ['x'], { repository: 'another' }) },
    ]);
    expect(effects.map(({ type, overlap: { paths } }) => [type, paths])).toEqual([
      ['overlap', ['x']],
      ['overlap', ['y']],
      ['cleared', ['x', 'y']],
    ]);
  });

  it('reports a changed file that an agent elsewhere has reserved, and not one of its own [RD.2]', () => {
    const leases = [{ id: 'l', glob: 'src/**', holder: 'agent@a' }];
    const { effects } = run([
      { type: 'leases', device: 'a', repository: REPOSITORY, leases },
      { type: 'place', place: place('a', ['src/x']) },
      { type: 'place', place: place('b', ['src/y', 'docs/z']) },
      { type: 'gone', device: 'a' },
    ]);
    expect(effects).toMatchObject([
      { type: 'overlap', overlap: { paths: ['src/y'], lease: { id: 'l' }, places: [{ device: 'b' }] } },
      { type: 'cleared' },
    ]);
  });
});
