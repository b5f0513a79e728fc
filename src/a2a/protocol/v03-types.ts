import type { AgentCardSignature, AgentExtension, AgentProvider, Metadata } from './types.js';

/** A2A 0.3 in JSON, as far as it differs from 1.0. */

export type V03TaskState =
  | 'unknown'
  | 'submitted'
  | 'working'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'input-required'
  | 'rejected'
  | 'auth-required';

export type V03File = { readonly name?: string; readonly mimeType?: string } & (
  | { readonly bytes: string }
  | { readonly uri: string }
);

export type V03Part = { readonly metadata?: Metadata } & (
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'file'; readonly file: V03File }
  | { readonly kind: 'data'; readonly data: Metadata }
);

export interface V03Message {
  readonly kind: 'message';
  readonly messageId: string;
  readonly role: 'user' | 'agent';
  readonly parts: readonly V03Part[];
  readonly contextId?: string;
  readonly taskId?: string;
  readonly metadata?: Metadata;
  readonly extensions?: readonly string[];
  readonly referenceTaskIds?: readonly string[];
}

export interface V03Artifact {
  readonly artifactId: string;
  readonly parts: readonly V03Part[];
  readonly name?: string;
  readonly description?: string;
  readonly metadata?: Metadata;
  readonly extensions?: readonly string[];
}

export interface V03TaskStatus {
  readonly state: V03TaskState;
  readonly message?: V03Message;
  readonly timestamp?: string;
}

export interface V03Task {
  readonly kind: 'task';
  readonly id: string;
  readonly contextId: string;
  readonly status: V03TaskStatus;
  readonly artifacts?: readonly V03Artifact[];
  readonly history?: readonly V03Message[];
  readonly metadata?: Metadata;
}

export interface V03StatusUpdate {
  readonly kind: 'status-update';
  readonly taskId: string;
  readonly contextId: string;
  readonly status: V03TaskStatus;
  readonly final: boolean;
  readonly metadata?: Metadata;
}

export interface V03ArtifactUpdate {
  readonly kind: 'artifact-update';
  readonly taskId: string;
  readonly contextId: string;
  readonly artifact: V03Artifact;
  readonly append?: boolean;
  readonly lastChunk?: boolean;
  readonly metadata?: Metadata;
}

export type V03StreamEvent = V03Task | V03Message | V03StatusUpdate | V03ArtifactUpdate;

export interface V03PushConfig {
  readonly url: string;
  readonly id?: string;
  readonly token?: string;
  readonly authentication?: { readonly schemes: readonly string[]; readonly credentials?: string };
}

export interface V03TaskPushConfig {
  readonly taskId: string;
  readonly pushNotificationConfig: V03PushConfig;
}

export type V03SecurityScheme = { readonly description?: string } & (
  | { readonly type: 'apiKey'; readonly in: string; readonly name: string }
  | { readonly type: 'http'; readonly scheme: string; readonly bearerFormat?: string }
  | { readonly type: 'oauth2'; readonly flows: Metadata; readonly oauth2MetadataUrl?: string }
  | { readonly type: 'openIdConnect'; readonly openIdConnectUrl: string }
  | { readonly type: 'mutualTLS' }
);

/** Each entry is a set of schemes that together suffice, with their scopes. */
export type V03Security = readonly Readonly<Record<string, readonly string[]>>[];

export interface V03Skill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly examples?: readonly string[];
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
  readonly security?: V03Security;
}

export interface V03Card {
  readonly protocolVersion: string;
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly url: string;
  readonly preferredTransport: string;
  readonly additionalInterfaces?: readonly { readonly url: string; readonly transport: string }[];
  readonly capabilities: {
    readonly streaming?: boolean;
    readonly pushNotifications?: boolean;
    readonly extensions?: readonly AgentExtension[];
  };
  readonly supportsAuthenticatedExtendedCard?: boolean;
  readonly defaultInputModes: readonly string[];
  readonly defaultOutputModes: readonly string[];
  readonly skills: readonly V03Skill[];
  readonly provider?: AgentProvider;
  readonly documentationUrl?: string;
  readonly iconUrl?: string;
  readonly securitySchemes?: Readonly<Record<string, V03SecurityScheme>>;
  readonly security?: V03Security;
  readonly signatures?: readonly AgentCardSignature[];
}
