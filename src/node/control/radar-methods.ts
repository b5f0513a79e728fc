import { DeviceRadarSchema, overlapsOf } from '../../coding-agents/radar/device-radar.js';
import type { DirtyPlace, Overlap } from '../../coding-agents/radar/radar-machine.js';
import { describeError } from '../../runtime/errors.js';
import type { Told } from '../devices/device-exchange.js';
import type { ControlContext, Handlers } from './context.js';
import type { RadarView } from './rows.js';

const NOTHING = { places: [], leases: [], skipped: [] };

/** Which files are changed in which worktree, here and on the owner's other devices, and where they overlap. */
export function radarMethods({
  node,
  codingAgents: { radar, names },
  devices,
}: Pick<ControlContext, 'codingAgents' | 'devices'> & {
  node: Pick<ControlContext['node'], 'registry'>;
}) {
  /** The last answer of each device. */
  const told = new Map<string, Told>();
  devices?.onRemoved((device) => told.delete(device));
  const key = node.registry.nodeKey ?? '';
  const shown = (place: DirtyPlace & { readonly name: string }) => {
    return { ...place, agents: place.agents.map((address) => names.display(address)) };
  };
  return {
    async radar({ local }): Promise<RadarView> {
      await radar?.settled();
      const own = { device: key, name: devices?.ownName ?? '', ...(radar?.seen ?? NOTHING) };
      if (local || !devices) return viewOf([own], [], shown);
      const missing: RadarView['missing'][number][] = [];
      const others = await Promise.all(
        devices.list().map(async ({ node: device, name }) => {
          try {
            const answer = await devices.askAgain(device, 'radar', told.get(device));
            told.set(device, answer);
            const { places, leases, skipped } = DeviceRadarSchema.parse(answer.result);
            return [{ device, name, places, leases, skipped }];
          } catch (error) {
            missing.push({ device, name, reason: describeError(error) });
            return [];
          }
        }),
      );
      return viewOf([own, ...others.flat()], missing, shown);
    },
  } satisfies Partial<Handlers>;
}

type Seen = Parameters<typeof overlapsOf>[0][number] & { readonly name: string };

function viewOf(
  seen: readonly Seen[],
  missing: RadarView['missing'],
  shown: (place: DirtyPlace & { readonly name: string }) => DirtyPlace & { readonly name: string },
): RadarView {
  const nameOf = new Map(seen.map(({ device, name }) => [device, name]));
  const placeOf = (place: DirtyPlace) => shown({ ...place, name: nameOf.get(place.device) ?? '' });
  const overlaps = overlapsOf(seen).map((overlap: Overlap) => ({ ...overlap, places: overlap.places.map(placeOf) }));
  return {
    // As other devices ask for them, with the addresses of the agents.
    places: seen.flatMap(({ places }) => [...places]),
    leases: seen.flatMap(({ leases }) => [...leases]),
    skipped: seen.flatMap(({ skipped }) => [...skipped]),
    overlaps,
    missing,
  };
}
