import type { JSONWebKeySet } from 'jose';
import type { Runtime } from '../../runtime/runtime.js';
import type { DelegationChain } from '../protocol/delegation.js';
import type { Message, Metadata, Part, SendMessageConfiguration } from '../protocol/types.js';
import type { CardSource } from './card-source.js';
import type { CredentialsOf } from './credentials.js';
import type { ClientCertificate } from './grpc-transport.js';
import type { Reach } from './remote-endpoint.js';
import type { ChosenInterface, InterfacePreference, Transport } from './transports.js';

export interface A2AClientComponents {
  runtime: Runtime;
  cards?: CardSource;
}

export interface A2AClientInit extends Reach, InterfacePreference {
  /** The base URL of an agent, or the URL of its card. */
  url: string;
  credentials?: CredentialsOf;
  /** The caller's entry in the delegation chain. */
  agent?: string;
  /** The chain of the task that this work is for. */
  chain?: DelegationChain;
  /** Extensions that the caller supports, besides those of this client. */
  extensions?: readonly string[];
  /** Trusted keys for the card's signature. Default: the keys that the card's origin serves. */
  keys?: JSONWebKeySet;
  /** A certificate for agents over gRPC that ask for one. */
  certificate?: ClientCertificate;
  /** Refuse a card without a valid signature. Default false. */
  requireSignature?: boolean;
}

/** An interface of a card that another room speaks. */
export interface Bound {
  readonly chosen: Exclude<ChosenInterface, { readonly binding: 'simple' }>;
  connect(headers: Readonly<Record<string, string>>): Transport;
}

export interface Outgoing {
  readonly message: string | readonly Part[] | Omit<Message, 'role' | 'messageId'>;
  readonly messageId?: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly skill?: string;
  readonly metadata?: Metadata;
  readonly configuration?: SendMessageConfiguration;
}
