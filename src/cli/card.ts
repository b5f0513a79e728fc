import type { SignatureVerdict } from '../a2a/client/card-source.js';
import type { AgentCard } from '../a2a/protocol/types.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command, Invocation } from './command.js';
import { isUrl, REMOTE_HELP, REMOTE_OPTIONS, reachOf, tokenOf } from './remote-target.js';

export const command: Command = {
  summary: 'show the card of this node, of one of its agents, or of a remote agent',
  usage: 'card [AGENT | URL] [--token T] [--allow-private]',
  options: REMOTE_OPTIONS,
  optionHelp: [['URL', 'an A2A agent’s address, or that of its card'], ...REMOTE_HELP],
  words: [0, 1],
  examples: ['ecliptic card', 'ecliptic card mars --json', 'ecliptic card https://agent.example.com'],
  async run(invocation) {
    const { connect, words, output } = invocation;
    const [subject] = words;
    if (isUrl(subject)) return showRemote(subject, invocation);
    const client = await connect();
    const card = await (subject === undefined ? client.call('node.card') : client.call('card', { id: subject }));
    output.value(card, () => JSON.stringify(card, null, 2));
  },
};

async function showRemote(url: string, { values, env, output }: Invocation): Promise<void> {
  const [{ CardSource }, { checkSignatures }] = await Promise.all([
    import('../a2a/client/card-source.js'),
    import('../a2a/client/card-source.js'),
  ]);
  const runtime = systemRuntime();
  const reach = { allowPrivate: reachOf(url, values) };
  const fetched = await new CardSource(runtime).fetch(url, { ...reach, credentials: tokenOf(values, env) });
  const signature = await checkSignatures(runtime, fetched, reach);
  output.value({ card: fetched.document, signature }, () => describe(fetched.card, signature));
}

function describe(card: AgentCard, signature: SignatureVerdict): string {
  const { name, version, description, provider, supportedInterfaces, capabilities, skills } = card;
  const can = (['streaming', 'pushNotifications', 'extendedAgentCard'] as const).filter((one) => capabilities[one]);
  const lines = [
    `${name} ${version}${provider ? ` (${provider.organization})` : ''}`,
    ...(description === '' ? [] : [description]),
    '',
    `signature  ${signatureText(signature)}`,
    `can        ${can.join(', ') || '-'}`,
    ...supportedInterfaces.map(
      ({ protocolBinding, protocolVersion, url }) => `speaks     A2A ${protocolVersion} ${protocolBinding} at ${url}`,
    ),
    ...(supportedInterfaces.length === 0 ? ['speaks     the simple task routes'] : []),
    '',
    skills.length === 0 ? 'no skills' : 'skills:',
    ...skills.map((skill) => `  ${skill.id}  ${skill.name}${skill.description ? `: ${skill.description}` : ''}`),
  ];
  return lines.join('\n');
}

function signatureText(verdict: SignatureVerdict): string {
  if (!verdict.signed) return 'none';
  return verdict.verified ? `holds (key ${verdict.kid})` : `DOES NOT HOLD: ${verdict.reasons.join('; ')}`;
}
