import type { ComponentType } from 'preact';
import type { TEXT } from './text.js';
import { Agents } from './views/agents.js';
import { Collections } from './views/collections.js';
import { Documents } from './views/documents.js';
import { Mail } from './views/mail.js';
import { Mesh } from './views/mesh.js';
import { Messages } from './views/messages.js';
import { Metrics } from './views/metrics.js';
import { Needs } from './views/needs.js';
import { Overview } from './views/overview.js';
import { Policy } from './views/policy.js';
import { Providers } from './views/providers.js';
import { Radar } from './views/radar.js';
import { Runs } from './views/runs.js';
import { Send } from './views/send.js';
import { StoryView } from './views/story.js';
import { Swarms } from './views/swarms.js';
import { Tasks } from './views/tasks.js';
import { Tools } from './views/tools.js';

/** A place of the page. It gets the rest of its address: an id, a name, or nothing. */
export interface Place {
  readonly id: keyof typeof TEXT.places;
  /** The letter after `g` that leads there. */
  readonly key: string;
  readonly view: ComponentType<{ rest: string }>;
  /** Beside every view on a wide screen, so a place of its own only on a narrow one. */
  readonly narrowOnly?: boolean;
  /** Reached by links only. */
  readonly hidden?: boolean;
}

/** In the order of the navigation. The first of the screen is shown where the address names none. */
export const PLACES: readonly Place[] = [
  { id: 'needs', key: 'n', view: Needs, narrowOnly: true },
  { id: 'overview', key: 'o', view: Overview },
  { id: 'agents', key: 'a', view: Agents },
  { id: 'messages', key: 'e', view: Messages },
  { id: 'mail', key: 'm', view: Mail },
  { id: 'tasks', key: 't', view: Tasks },
  { id: 'swarms', key: 's', view: Swarms },
  { id: 'documents', key: 'd', view: Documents },
  { id: 'memory', key: 'k', view: Collections },
  { id: 'radar', key: 'r', view: Radar },
  { id: 'providers', key: 'p', view: Providers },
  { id: 'tools', key: 'l', view: Tools },
  { id: 'policy', key: 'y', view: Policy },
  { id: 'mesh', key: 'h', view: Mesh },
  { id: 'metrics', key: 'x', view: Metrics },
  { id: 'send', key: 'c', view: Send },
  { id: 'runs', key: '', view: Runs, hidden: true },
  { id: 'story', key: '', view: StoryView, hidden: true },
];
