import type { Upstreams } from '../../mcp/upstream/upstreams.js';
import type { Finding } from '../../network/peers/network.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** The owner's operations on upstream MCP servers and on what is pinned of them. */
export function upstreamMethods(upstreams: Upstreams): Readonly<Record<string, ControlMethod>> {
  return {
    'tools.servers'() {
      return upstreams.statuses;
    },
    /** Says where the user is to go, and returns when the user has come back. */
    async 'tools.login'(params, { emit }) {
      const server = new Params(params).string('server');
      const { url, done } = await upstreams.login(server);
      emit({ url });
      await done;
      return { server };
    },
    'tools.logout'(params) {
      const server = new Params(params).string('server');
      upstreams.logout(server);
      return { server };
    },
    'tools.pins'() {
      return upstreams.pins;
    },
    'tools.approve'(params) {
      const read = new Params(params);
      const { all } = read.optional({ all: 'boolean' });
      const approved = upstreams.approve(all ? { all } : { subject: read.string('subject') });
      return approved.map(({ id, subject, summary }) => ({ id, subject, summary }));
    },
  };
}

/** What a diagnosis says of upstream servers. */
export function upstreamFindings(upstreams: Upstreams): Finding[] {
  return upstreams.statuses.flatMap(({ name, state, reason, offered, quarantined, problems }): Finding[] => {
    const server = `MCP server "${name}"`;
    const count = Object.values(offered).reduce((sum, one) => sum + one, 0);
    const findings: Finding[] = [];
    if (state === 'running') findings.push({ level: 'ok', text: `${server} runs and offers ${count} things` });
    else if (state === 'needs-login') findings.push({ level: 'warning', text: reason ?? `${server} needs a login` });
    else if (state === 'disabled') findings.push({ level: 'ok', text: `${server} is switched off` });
    else findings.push({ level: 'problem', text: `${server} is ${state}${reason === null ? '' : `: ${reason}`}` });
    if (quarantined > 0) {
      const text = `${server} changed ${quarantined} of its definitions; see: ecliptic tools pins`;
      findings.push({ level: 'warning', text });
    }
    return [...findings, ...problems.map((text): Finding => ({ level: 'warning', text: `${server}: ${text}` }))];
  });
}
