import type { Gateway } from '../../http/gateway.js';
import type { Finding } from '../../network/peers/network.js';
import { descriptorLimit, openDescriptors } from '../../system/process/descriptors.js';

/** From this part of the limit on, the next connection or program may be the one that cannot be had. */
const NEARLY_ALL = 0.9;

/** What a diagnosis says of connections that were refused, and of the descriptors that they and files need. */
export function connectionFindings({ most, refused }: Gateway['connections']): Finding[] {
  const findings: Finding[] = [];
  const limit = descriptorLimit();
  const open = openDescriptors();
  if (open === undefined || open >= limit * NEARLY_ALL) {
    const text = `${open ?? 'all'} of ${limit} file descriptors are in use; raise the limit (ulimit -n), or close connections`;
    findings.push({ level: 'problem', text });
  }
  if (refused > 0) {
    const text = `${refused} HTTP connections were refused since the start: ${most} may be open at once`;
    findings.push({ level: 'warning', text });
  }
  return findings;
}
