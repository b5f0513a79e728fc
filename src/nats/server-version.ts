/** A feature that this package uses where the server has it, and the first version with it. */
const FEATURES: readonly { since: readonly [number, number]; without: string; ofClusters?: true }[] = [
  {
    since: [2, 10],
    without: 'no sync_interval: a server that loses power can lose messages that it has acknowledged',
  },
  {
    since: [2, 10],
    without:
      'a cluster of such servers can lose an acknowledged write when one is killed, and a path can have two leases',
    ofClusters: true,
  },
  { since: [2, 11], without: 'no TTL per key: a node that crashed looks present to newcomers for about ten seconds' },
];

/** What a server cannot do that this package would use. */
export function brokerGaps(info: { version: string; cluster?: string }): string[] {
  const [major = 0, minor = 0] = info.version.split(/[.-]/).map(Number);
  const isOlder = (since: readonly [number, number]) => major < since[0] || (major === since[0] && minor < since[1]);
  const concerns = ({ ofClusters = false }) => !ofClusters || info.cluster !== undefined;
  const missing = FEATURES.filter((feature) => isOlder(feature.since) && concerns(feature));
  return missing.map(({ since, without }) => `NATS ${info.version} is older than ${since.join('.')}: ${without}`);
}
