import type { RadarView } from '../../src/node/control/rows.js';
import { Empty, Stale } from '../parts/empty.js';
import { AgentName, deviceName } from '../parts/facts.js';
import { Unread } from '../parts/read.js';
import { Section, Table } from '../parts/table.js';
import { useRead } from '../stream.js';
import { RADAR_TEXT } from '../text/radar.js';
import { TEXT } from '../text.js';

type Overlap = RadarView['overlaps'][number];

/** Files of one overlap that are listed. */
const SHOWN = 20;

/** Which files are changed where on the owner's devices, and where two agents are at the same one. */
export function Radar() {
  const { value: view, error } = useRead<RadarView>('radar');
  if (!view) return <Unread error={error} reading={RADAR_TEXT.loading} />;
  const { places, overlaps, missing, skipped } = view;
  return (
    <>
      <Stale error={error} />
      {places.length === 0 ? (
        <Empty command={RADAR_TEXT.noneCommand}>{RADAR_TEXT.none}</Empty>
      ) : (
        <>
          <Section title={RADAR_TEXT.overlaps}>
            {overlaps.length === 0 ? <p class="dim">{RADAR_TEXT.noOverlaps}</p> : <Overlaps overlaps={overlaps} />}
          </Section>
          <Section title={RADAR_TEXT.folders}>
            <Table columns={RADAR_TEXT.folderColumns} label={TEXT.places.radar}>
              {places.map((place) => (
                <Folder key={`${place.device} ${place.folder}`} place={place} />
              ))}
            </Table>
          </Section>
        </>
      )}
      {missing.map(({ device, name, reason }) => (
        <p key={device} class="dim">
          {RADAR_TEXT.missing(name, reason)}
        </p>
      ))}
      {skipped.map(({ folder, reason }) => (
        <p key={folder} class="dim">
          {RADAR_TEXT.skipped(folder, reason)}
        </p>
      ))}
    </>
  );
}

function Overlaps({ overlaps }: { overlaps: readonly Overlap[] }) {
  return (
    <Table columns={RADAR_TEXT.overlapColumns} label={RADAR_TEXT.overlaps}>
      {overlaps.map(({ places: [one, other], lease, paths }) => (
        <tr key={`${one?.device} ${one?.folder} ${other?.device} ${other?.folder} ${lease?.id}`}>
          <th scope="row" class="warn mono">
            {paths.slice(0, SHOWN).map((path) => (
              <div key={path}>{path}</div>
            ))}
            {paths.length > SHOWN && <div>{RADAR_TEXT.more(paths.length - SHOWN)}</div>}
          </th>
          <td>{one && whereOf(one)}</td>
          <td>{lease ? RADAR_TEXT.reserved(lease.holder.split('@', 1)[0]!, lease.glob) : other && whereOf(other)}</td>
        </tr>
      ))}
    </Table>
  );
}

function whereOf({ agents, branch, device, folder }: Overlap['places'][number]): string {
  const who = agents.length === 0 ? folder : agents.join(', ');
  return [who, branch ?? RADAR_TEXT.detached, deviceName(device)].join(' · ');
}

function Folder({ place }: { place: RadarView['places'][number] }) {
  const { repositoryName, branch, agents, device, files, more, folder, mode } = place;
  return (
    <tr>
      <th scope="row">{repositoryName}</th>
      <td class="mono">{branch ?? RADAR_TEXT.detached}</td>
      <td>
        {agents.length === 0 ? (
          <span class="dim">{RADAR_TEXT.person}</span>
        ) : (
          agents.map((address) => (
            <div key={address}>
              <AgentName address={address} />
            </div>
          ))
        )}
        {agents.length > 1 && <div class="warn">{RADAR_TEXT.shared}</div>}
      </td>
      <td>{deviceName(device)}</td>
      <td>
        {files.length === 0 ? (
          RADAR_TEXT.files(more)
        ) : (
          <details>
            <summary>{RADAR_TEXT.files(files.length + more)}</summary>
            <div class="mono">
              {files.map((file) => (
                <div key={file}>{file}</div>
              ))}
              {more > 0 && <div>{RADAR_TEXT.more(more)}</div>}
            </div>
          </details>
        )}
        {mode === 'polled' && <div class="dim">{RADAR_TEXT.polled}</div>}
      </td>
      <td class="mono">{folder}</td>
    </tr>
  );
}
