import { EclipticError } from '../../runtime/errors.js';
import { A2A_LIMITS } from './limits.js';
import {
  compact,
  type Fields,
  jsonProblem,
  type Place,
  readAnyText,
  readFlag,
  readList,
  readMetadata,
  readObject,
  readOptionalText,
  readText,
  readTexts,
  refuse,
  within,
} from './reading.js';
import type {
  AgentCapabilities,
  AgentCard,
  AgentCardSignature,
  AgentExtension,
  AgentInterface,
  AgentSkill,
  SecurityRequirement,
  SecurityScheme,
} from './types.js';
import { fromV03Card } from './v03-card.js';

const { nameChars, urlChars, cardTextChars, cardEntries } = A2A_LIMITS;

/**
 * A remote agent's card, in any shape that agents have: 1.0, 0.3, both, or the simple one. Name and version must be
 * there; what else is missing counts as empty, and what is wrong is an `INVALID_CARD` that says where.
 */
export function takeAgentCard(value: unknown): AgentCard {
  try {
    return readCard(readObject(fromV03Card(value), 'card'));
  } catch (error) {
    if (!(error instanceof EclipticError) || error.code !== 'INVALID_PARAMS') throw error;
    throw new EclipticError('INVALID_CARD', `not a valid agent card: ${error.message}`, { faults: [error.message] });
  }
}

function readCard(from: Fields): AgentCard {
  return compact<AgentCard>({
    name: readText(from, 'name', '', nameChars),
    description: from.description === undefined ? '' : readAnyText(from, 'description', '', cardTextChars),
    supportedInterfaces: readEntries(from, 'supportedInterfaces', '', readInterface) ?? [],
    version: readText(from, 'version', '', nameChars),
    capabilities: readCapabilities(from.capabilities ?? {}, 'capabilities'),
    defaultInputModes: readTexts(from, 'defaultInputModes', '', nameChars, cardEntries) ?? [],
    defaultOutputModes: readTexts(from, 'defaultOutputModes', '', nameChars, cardEntries) ?? [],
    skills: readEntries(from, 'skills', '', readSkill) ?? [],
    provider: isUnset(from.provider) ? undefined : readProvider(from.provider, 'provider'),
    documentationUrl: readOptionalText(from, 'documentationUrl', '', urlChars),
    iconUrl: readOptionalText(from, 'iconUrl', '', urlChars),
    securitySchemes: readSchemes(from.securitySchemes, 'securitySchemes'),
    securityRequirements: readEntries(from, 'securityRequirements', '', readRequirement),
    signatures: readEntries(from, 'signatures', '', readSignature),
  });
}

function readInterface(value: unknown, place: Place): AgentInterface {
  const from = readObject(value, place);
  return compact<AgentInterface>({
    url: readText(from, 'url', place, urlChars),
    protocolBinding: readText(from, 'protocolBinding', place, nameChars),
    protocolVersion: readText(from, 'protocolVersion', place, nameChars),
    tenant: readOptionalText(from, 'tenant', place, nameChars),
  });
}

function readCapabilities(value: unknown, place: Place): AgentCapabilities {
  const from = readObject(value, place);
  return compact<AgentCapabilities>({
    streaming: readFlag(from, 'streaming', place),
    pushNotifications: readFlag(from, 'pushNotifications', place),
    extendedAgentCard: readFlag(from, 'extendedAgentCard', place),
    extensions: readEntries(from, 'extensions', place, readExtension),
  });
}

function readExtension(value: unknown, place: Place): AgentExtension {
  const from = readObject(value, place);
  return compact<AgentExtension>({
    uri: readText(from, 'uri', place, urlChars),
    description: readOptionalText(from, 'description', place, cardTextChars),
    required: readFlag(from, 'required', place),
    params: readMetadata(from, 'params', place),
  });
}

function readSkill(value: unknown, place: Place): AgentSkill {
  const from = readObject(value, place);
  return compact<AgentSkill>({
    id: readText(from, 'id', place, nameChars),
    name: readText(from, 'name', place, nameChars),
    description: isUnset(from.description) ? '' : readAnyText(from, 'description', place, cardTextChars),
    tags: readTexts(from, 'tags', place, nameChars, cardEntries) ?? [],
    examples: readTexts(from, 'examples', place, cardTextChars, cardEntries),
    inputModes: readTexts(from, 'inputModes', place, nameChars, cardEntries),
    outputModes: readTexts(from, 'outputModes', place, nameChars, cardEntries),
    securityRequirements: readEntries(from, 'securityRequirements', place, readRequirement),
  });
}

function readProvider(value: unknown, place: Place): { organization: string; url: string } {
  const from = readObject(value, place);
  return {
    organization: isUnset(from.organization) ? '' : readAnyText(from, 'organization', place, nameChars),
    url: isUnset(from.url) ? '' : readAnyText(from, 'url', place, urlChars),
  };
}

/** Schemes are kept as they are: a client looks at those that it knows. */
function readSchemes(value: unknown, place: string): Readonly<Record<string, SecurityScheme>> | undefined {
  if (isUnset(value)) return undefined;
  const schemes = readObject(value, place);
  const problem = jsonProblem(schemes);
  if (problem) refuse(`${place}${problem.at}`, problem.text);
  for (const [name, scheme] of Object.entries(schemes)) readObject(scheme, within(place, name));
  return schemes as Readonly<Record<string, SecurityScheme>>;
}

function readRequirement(value: unknown, place: Place): SecurityRequirement {
  const from = readObject(value, place);
  const schemes = readObject(from.schemes ?? {}, within(place, 'schemes'));
  const read = Object.entries(schemes).map(([name, scopes]) => {
    const at = within(within(place, 'schemes'), name);
    return [name, compact<{ list?: readonly string[] }>({ list: readTexts(readObject(scopes, at), 'list', at) })];
  });
  return { schemes: Object.fromEntries(read) as SecurityRequirement['schemes'] };
}

function readSignature(value: unknown, place: Place): AgentCardSignature {
  const from = readObject(value, place);
  return compact<AgentCardSignature>({
    protected: readText(from, 'protected', place, cardTextChars),
    signature: readText(from, 'signature', place, cardTextChars),
    header: readMetadata(from, 'header', place),
  });
}

/** An empty list is one that is not set. */
function readEntries<T>(
  from: Fields,
  member: string,
  place: Place,
  read: (value: unknown, place: Place) => T,
): readonly T[] | undefined {
  if (isUnset(from[member])) return undefined;
  const at = within(place, member);
  const list = readList(from[member], at, cardEntries);
  return list.length === 0 ? undefined : list.map((entry, index) => read(entry, [at, index]));
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null;
}
