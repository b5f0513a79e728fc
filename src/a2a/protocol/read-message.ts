import { A2A_LIMITS } from './limits.js';
import {
  compact,
  type Fields,
  jsonProblem,
  type Place,
  readId,
  readList,
  readMetadata,
  readObject,
  readOptionalId,
  readOptionalText,
  readTexts,
  refuse,
  within,
} from './reading.js';
import type { Artifact, Message, Part, Role } from './types.js';

const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

export function readMessage(value: unknown, place: Place): Message {
  return readMessageOf(readObject(value, place), place, readId);
}

/** A message of a remote agent. Some leave its id out, as examples in the specification do; the id is empty then. */
export function readAgentMessage(value: unknown, place: Place): Message {
  return readMessageOf(readObject(value, place), place, (...at) => readOptionalId(...at) ?? '');
}

function readMessageOf(from: Fields, place: Place, readMessageId: typeof readId): Message {
  return compact<Message>({
    messageId: readMessageId(from, 'messageId', place),
    role: readRole(from, place),
    parts: readParts(from, place),
    contextId: readOptionalId(from, 'contextId', place),
    taskId: readOptionalId(from, 'taskId', place),
    metadata: readMetadata(from, 'metadata', place),
    extensions: readTexts(from, 'extensions', place),
    referenceTaskIds: readTexts(from, 'referenceTaskIds', place, A2A_LIMITS.idChars),
  });
}

export function readArtifact(value: unknown, place: Place): Artifact {
  const from = readObject(value, place);
  return compact<Artifact>({
    artifactId: readId(from, 'artifactId', place),
    parts: readParts(from, place),
    name: readOptionalText(from, 'name', place, A2A_LIMITS.nameChars),
    description: readOptionalText(from, 'description', place, A2A_LIMITS.cardTextChars),
    metadata: readMetadata(from, 'metadata', place),
    extensions: readTexts(from, 'extensions', place),
  });
}

export function readParts(from: Fields, place: Place): readonly Part[] {
  const at = within(place, 'parts');
  const list = readList(from.parts, at, A2A_LIMITS.parts);
  if (list.length === 0) refuse(at, 'must have at least one part');
  const parts: Part[] = [];
  for (let index = 0; index < list.length; index++) parts.push(readPart(list[index], [at, index]));
  return parts;
}

/** A part is one thing: text, bytes, a URL, or data. Data is there whenever its member is, be it `null`. */
export function readPart(value: unknown, place: Place): Part {
  const from = readObject(value, place);
  const { text, raw, url, data } = from;
  const has = Number(isSet(text)) + Number(isSet(raw)) + Number(isSet(url)) + Number(data !== undefined);
  if (has !== 1) refuse(place, `must have exactly one of text, raw, url and data, and has ${has}`);
  const around = {
    metadata: readMetadata(from, 'metadata', place),
    filename: readOptionalText(from, 'filename', place, A2A_LIMITS.nameChars),
    mediaType: readOptionalText(from, 'mediaType', place, A2A_LIMITS.nameChars),
  };
  if (data !== undefined) {
    const problem = jsonProblem(data);
    if (problem) refuse(within(place, `data${problem.at}`), problem.text);
    return compact<Part>({ data, ...around });
  }
  if (isSet(text)) return compact<Part>({ text: readContent(text, place, 'text'), ...around });
  if (isSet(url)) return compact<Part>({ url: readUrl(url, place), ...around });
  const bytes = readContent(raw, place, 'raw');
  if (!BASE64.test(bytes)) refuse(within(place, 'raw'), 'must be base64');
  return compact<Part>({ raw: bytes, ...around });
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function readContent(value: unknown, place: Place, member: 'text' | 'raw'): string {
  if (typeof value !== 'string') refuse(within(place, member), 'must be a string');
  if (value.length > A2A_LIMITS.contentChars) {
    refuse(within(place, member), `is longer than ${A2A_LIMITS.contentChars} characters`);
  }
  return value;
}

function readUrl(value: unknown, place: Place): string {
  if (typeof value !== 'string' || value.length > A2A_LIMITS.urlChars || !URL.canParse(value)) {
    refuse(within(place, 'url'), `must be an absolute URL of at most ${A2A_LIMITS.urlChars} characters`);
  }
  return value;
}

function readRole(from: Fields, place: Place): Role {
  // ProtoJSON readers take an enum by its number too.
  const role = from.role === 1 ? 'ROLE_USER' : from.role === 2 ? 'ROLE_AGENT' : from.role;
  if (role !== 'ROLE_USER' && role !== 'ROLE_AGENT') {
    refuse(within(place, 'role'), 'must be ROLE_USER or ROLE_AGENT');
  }
  return role;
}
