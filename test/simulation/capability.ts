import type { Agent } from '../../src/agent/agent.js';
import type { Message } from '../../src/agent/message.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { Dice } from './dice.js';
import type { Fabric, Life, Role, UpLife } from './fabric.js';

/** One subject of the simulation: it makes work, takes the messages of that work, and checks what became of it. */
export interface Capability {
  readonly name: string;
  /** How often its work is drawn, beside that of others. */
  readonly weight: number;
  /** Does something, as the dice say. They belong to this event alone. */
  act(dice: Dice): void;
  /** An agent has come to life. */
  enter?(agent: Agent, role: Role, life: UpLife): void;
  /** A node has come to life. */
  began?(life: UpLife): void | Promise<void>;
  /** A message whose payload names this capability. */
  onMessage?(message: Message, role: Role, life: UpLife): unknown;
  onRequest?(message: Message, role: Role, life: UpLife): unknown;
  onEvent?(event: A2ALogEvent, life: UpLife): void;
  onCrash?(life: Life): void;
  /** Checks what must hold at every moment. */
  look?(): void;
  /** The faults are over. */
  calm?(): void;
  /** What keeps the mesh from rest. */
  left?(): string[] | Promise<string[]>;
  /** Checks the outcome, at rest. */
  judge?(): void | Promise<void>;
}

/** The payload of every message of the simulation. */
export interface Note {
  readonly cap: string;
  readonly op: number;
}

export function noteOf(payload: unknown): Note | undefined {
  const note = payload as Partial<Note> | null;
  return typeof note?.cap === 'string' && typeof note.op === 'number' ? (note as Note) : undefined;
}

/** Two agents, mostly of different nodes; the sender's node is up. */
export function pickPair(fabric: Fabric, dice: Dice): { from: Role; to: Role; life: UpLife } | undefined {
  const life = dice.pickMaybe(fabric.up.filter(({ station }) => station.removedAt === undefined));
  const from = life && dice.pickMaybe(life.station.roles);
  if (!life || !from) return undefined;
  const others = fabric.roles.filter((role) => role !== from && role.station.removedAt === undefined);
  const elsewhere = others.filter(({ station }) => station !== life.station);
  const to = dice.pickMaybe(dice.chance(0.85) && elsewhere.length > 0 ? elsewhere : others);
  return to && { from, to, life };
}
