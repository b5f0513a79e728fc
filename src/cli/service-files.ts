import { dirname, join } from 'node:path';

/** How the node of this user is run by the system. */
export interface ServiceInit {
  /** The program of Node and its arguments. */
  readonly command: readonly string[];
  readonly folder: string;
  /** Where the node finds the programs of its agents. */
  readonly path: string;
}

export interface ServiceFile {
  readonly file: string;
  readonly text: string;
  /** Commands that make it effective. */
  readonly start: readonly (readonly string[])[];
  readonly stop: readonly (readonly string[])[];
}

const LABEL = 'dev.ecliptic.node';

/** A unit of the user's systemd. `ecliptic down` stays down: only a failure is followed by a restart. */
export function systemdUnit({ command, folder, path }: ServiceInit, configFolder: string): ServiceFile {
  const systemctl = (...words: string[]) => ['systemctl', '--user', ...words];
  const text = `[Unit]
Description=Ecliptic node
StartLimitIntervalSec=10min
StartLimitBurst=10

[Service]
Type=exec
WorkingDirectory=${unitText(folder)}
Environment=${unitWord(`PATH=${path}`)}
ExecStart=${command.map(unitWord).join(' ')}
KillMode=mixed
TimeoutStopSec=30
SuccessExitStatus=143
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
`;
  return {
    file: join(configFolder, 'systemd', 'user', 'ecliptic.service'),
    text,
    start: [systemctl('daemon-reload'), systemctl('enable', '--now', 'ecliptic.service')],
    stop: [systemctl('disable', '--now', 'ecliptic.service'), systemctl('daemon-reload')],
  };
}

/** An agent of the user's launchd. */
export function launchAgent({ command, folder, path }: ServiceInit, home: string, uid: number): ServiceFile {
  const file = join(home, 'Library', 'LaunchAgents', `${LABEL}.plist`);
  const words = command.map((word) => `    <string>${xml(word)}</string>`).join('\n');
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>${LABEL}</string>
  <key>ProgramArguments</key>
  <array>
${words}
  </array>
  <key>WorkingDirectory</key><string>${xml(folder)}</string>
  <key>EnvironmentVariables</key><dict><key>PATH</key><string>${xml(path)}</string></dict>
  <key>StandardErrorPath</key><string>${xml(join(folder, 'node.log'))}</string>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>Crashed</key><true/></dict>
</dict>
</plist>
`;
  const domain = `gui/${uid}`;
  return {
    file,
    text,
    start: [['launchctl', 'bootstrap', domain, file]],
    stop: [['launchctl', 'bootout', `${domain}/${LABEL}`]],
  };
}

/** The folder of a service's file. */
export function folderOf({ file }: ServiceFile): string {
  return dirname(file);
}

function unitText(text: string): string {
  return text.replaceAll('%', '%%');
}

function unitWord(word: string): string {
  return `"${unitText(word)
    .replace(/[\\"]/g, (character) => `\\${character}`)
    .replaceAll('$', '$$$$')}"`;
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
