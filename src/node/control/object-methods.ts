import { isAbsolute } from 'node:path';
import type { Agent } from '../../agent/agent.js';
import { OWNER } from '../../coding-agents/mailbox/letter.js';
import { fullAddress, joinAddress, splitAddress } from '../../mesh/address.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import { attachmentsIn, type ObjectRef, readRef } from '../../objects/reference.js';
import { EclipticError } from '../../runtime/errors.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers } from './context.js';
import type { ObjectRow } from './rows.js';

/** An object and the full addresses of its readers. */
interface Known {
  readonly ref: ObjectRef;
  readonly readers: readonly string[];
}

const PAGE = 100;

/** The owner's operations on objects; the owner may read as any agent of this node. */
export function objectMethods({ node }: ControlContext) {
  const { objects, registry } = node;
  const full = (address: string) => fullAddress(address, registry.nodeKey);

  /** Attachments of mail that no agent has dealt with yet. */
  async function waiting(): Promise<Known[]> {
    const found: Known[] = [];
    for (const { id } of node.mail ? node.agents : []) {
      for (let after = 0; ; ) {
        const rows = await node.mail!.inbox(id, after, PAGE);
        for (const { envelope } of rows) {
          if (!envelope.includes('"attachments"')) continue;
          const { payload } = unpackEnvelope(JSON.parse(envelope));
          for (const ref of attachmentsIn(payload)) found.push({ ref, readers: [full(id)] });
        }
        if (rows.length < PAGE) break;
        after = rows.at(-1)!.number;
      }
    }
    return found;
  }

  async function known(): Promise<Known[]> {
    const received = objects.received.map(({ ref, reader }) => ({ ref, readers: [full(reader)] }));
    const all = new Map<string, Known>();
    for (const one of [...objects.stored, ...received, ...(await waiting())]) {
      if (!all.has(one.ref.object)) all.set(one.ref.object, one);
    }
    return [...all.values()];
  }

  async function find(given: string): Promise<Known> {
    if (given.startsWith('{')) return { ref: readRef(json(given)), readers: [] };
    const all = await known();
    const id = completeId(
      given,
      all.map(({ ref }) => ref.object),
    );
    const found = all.find(({ ref }) => ref.object === id);
    if (found) return found;
    throw new EclipticError('OBJECT_NOT_FOUND', `no object "${given}" is known here; see: ecliptic object list`);
  }

  function readerOf({ ref, readers }: Known, as: string | undefined): Agent {
    const own = readers.map(splitAddress).find((reader) => reader.node === registry.nodeKey)?.id;
    const id = as ?? own;
    if (id === undefined) throw wrongParameter('as', `is needed: which agent here was ${ref.object} sent to?`);
    return id === OWNER ? node.operator() : node.agentById(id);
  }

  return {
    objects: async () => (await known()).map(rowOf),
    async 'object.get'({ object, file, as }) {
      if (!isAbsolute(file)) throw wrongParameter('file', 'must be an absolute path');
      const found = await find(object);
      await readerOf(found, as).objects.save(found.ref, file);
      return { ...rowOf(found), file };
    },
    async 'object.remove'({ id }) {
      await objects.remove(
        completeId(
          id,
          objects.stored.map(({ ref }) => ref.object),
        ),
      );
    },
  } satisfies Partial<Handlers>;
}

function rowOf({ ref, readers }: Known): ObjectRow {
  const { object: id, name, size, mediaType, sha256, node, owner, expiresAt } = ref;
  return { id, name, size, mediaType, sha256, from: joinAddress(owner, node), to: readers, expiresAt };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new EclipticError('USAGE', 'the reference is not JSON', { parameter: 'object' }, error);
  }
}
