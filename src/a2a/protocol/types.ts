/** A2A 1.0 in JSON: the ProtoJSON form of `lf.a2a.v1`, with camelCase names, enums by name, and unset fields left out. */

export type Metadata = Readonly<Record<string, unknown>>;

/** The index is the number in the protocol's enum. */
export const TASK_STATES = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const;

export type TaskState = (typeof TASK_STATES)[number];

export type Role = 'ROLE_USER' | 'ROLE_AGENT';

/** Has exactly one of `text`, `raw` (base64), `url` and `data`; `data` may be any JSON value, `null` too. */
export interface Part {
  readonly text?: string;
  readonly raw?: string;
  readonly url?: string;
  readonly data?: unknown;
  readonly metadata?: Metadata;
  readonly filename?: string;
  readonly mediaType?: string;
}

export interface Message {
  readonly messageId: string;
  readonly role: Role;
  readonly parts: readonly Part[];
  readonly contextId?: string;
  readonly taskId?: string;
  readonly metadata?: Metadata;
  readonly extensions?: readonly string[];
  readonly referenceTaskIds?: readonly string[];
}

export interface Artifact {
  readonly artifactId: string;
  readonly parts: readonly Part[];
  readonly name?: string;
  readonly description?: string;
  readonly metadata?: Metadata;
  readonly extensions?: readonly string[];
}

export interface TaskStatus {
  readonly state: TaskState;
  readonly message?: Message;
  /** UTC with milliseconds and `Z`. */
  readonly timestamp?: string;
}

export interface Task {
  readonly id: string;
  readonly contextId: string;
  readonly status: TaskStatus;
  readonly artifacts?: readonly Artifact[];
  readonly history?: readonly Message[];
  readonly metadata?: Metadata;
}

export interface TaskStatusUpdateEvent {
  readonly taskId: string;
  readonly contextId: string;
  readonly status: TaskStatus;
  readonly metadata?: Metadata;
}

export interface TaskArtifactUpdateEvent extends Omit<TaskStatusUpdateEvent, 'status'> {
  readonly artifact: Artifact;
  /** Adds the parts to those of the artifact, instead of replacing it. */
  readonly append?: boolean;
  readonly lastChunk?: boolean;
}

export type StreamResponse =
  | { readonly task: Task }
  | { readonly message: Message }
  | { readonly statusUpdate: TaskStatusUpdateEvent }
  | { readonly artifactUpdate: TaskArtifactUpdateEvent };

export type SendMessageResponse = { readonly task: Task } | { readonly message: Message };

export interface AuthenticationInfo {
  readonly scheme: string;
  readonly credentials?: string;
}

export interface TaskPushNotificationConfig {
  readonly tenant?: string;
  readonly id?: string;
  readonly taskId?: string;
  readonly url: string;
  readonly token?: string;
  readonly authentication?: AuthenticationInfo;
}

export interface SendMessageConfiguration {
  readonly acceptedOutputModes?: readonly string[];
  readonly taskPushNotificationConfig?: TaskPushNotificationConfig;
  readonly historyLength?: number;
  readonly returnImmediately?: boolean;
}

export interface SendMessageRequest {
  readonly tenant?: string;
  readonly message: Message;
  readonly configuration?: SendMessageConfiguration;
  readonly metadata?: Metadata;
}

interface Tenanted {
  readonly tenant?: string;
}

export interface SubscribeToTaskRequest extends Tenanted {
  readonly id: string;
}

export interface GetTaskRequest extends SubscribeToTaskRequest {
  readonly historyLength?: number;
}

export interface CancelTaskRequest extends SubscribeToTaskRequest {
  readonly metadata?: Metadata;
}

export interface ListTasksRequest extends Tenanted {
  readonly contextId?: string;
  readonly status?: TaskState;
  readonly pageSize?: number;
  readonly pageToken?: string;
  readonly historyLength?: number;
  readonly statusTimestampAfter?: string;
  readonly includeArtifacts?: boolean;
}

export interface ListTasksResponse {
  readonly tasks: readonly Task[];
  /** Empty at the end of the list. */
  readonly nextPageToken: string;
  readonly pageSize: number;
  readonly totalSize: number;
}

/** Names a push configuration of a task, to get or delete it. */
export interface PushConfigRequest extends Tenanted {
  readonly taskId: string;
  readonly id: string;
}

export interface ListPushConfigsRequest extends Tenanted {
  readonly taskId: string;
  readonly pageSize?: number;
  readonly pageToken?: string;
}

export interface ListPushConfigsResponse {
  readonly configs: readonly TaskPushNotificationConfig[];
  readonly nextPageToken?: string;
}

export type GetExtendedAgentCardRequest = Tenanted;

export interface AgentInterface {
  readonly url: string;
  /** `JSONRPC`, `GRPC`, `HTTP+JSON`, or the URI of another binding. */
  readonly protocolBinding: string;
  readonly protocolVersion: string;
  readonly tenant?: string;
}

export interface AgentProvider {
  readonly organization: string;
  readonly url: string;
}

export interface AgentExtension {
  readonly uri: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly params?: Metadata;
}

export interface AgentCapabilities {
  readonly streaming?: boolean;
  readonly pushNotifications?: boolean;
  readonly extendedAgentCard?: boolean;
  readonly extensions?: readonly AgentExtension[];
}

export interface SecurityRequirement {
  readonly schemes: Readonly<Record<string, { readonly list?: readonly string[] }>>;
}

export interface AgentSkill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly examples?: readonly string[];
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
  readonly securityRequirements?: readonly SecurityRequirement[];
}

interface OAuthFlow {
  readonly scopes: Readonly<Record<string, string>>;
  readonly refreshUrl?: string;
}

/** Exactly one flow. The protocol has deprecated `implicit` and `password`, which older cards have. */
export interface OAuthFlows {
  readonly authorizationCode?: OAuthFlow & {
    readonly authorizationUrl: string;
    readonly tokenUrl: string;
    readonly pkceRequired?: boolean;
  };
  readonly clientCredentials?: OAuthFlow & { readonly tokenUrl: string };
  readonly deviceCode?: OAuthFlow & { readonly deviceAuthorizationUrl: string; readonly tokenUrl: string };
  readonly implicit?: Partial<OAuthFlow> & { readonly authorizationUrl?: string };
  readonly password?: Partial<OAuthFlow> & { readonly tokenUrl?: string };
}

/** Exactly one kind of scheme, by its name. */
export interface SecurityScheme {
  readonly apiKeySecurityScheme?: { readonly location: string; readonly name: string; readonly description?: string };
  readonly httpAuthSecurityScheme?: {
    readonly scheme: string;
    readonly bearerFormat?: string;
    readonly description?: string;
  };
  readonly oauth2SecurityScheme?: {
    readonly flows: OAuthFlows;
    readonly oauth2MetadataUrl?: string;
    readonly description?: string;
  };
  readonly openIdConnectSecurityScheme?: { readonly openIdConnectUrl: string; readonly description?: string };
  readonly mtlsSecurityScheme?: { readonly description?: string };
}

export interface AgentCardSignature {
  /** The protected header's JSON in base64url. */
  readonly protected: string;
  readonly signature: string;
  readonly header?: Metadata;
}

export interface AgentCard {
  readonly name: string;
  readonly description: string;
  /** The first is preferred. */
  readonly supportedInterfaces: readonly AgentInterface[];
  readonly version: string;
  readonly capabilities: AgentCapabilities;
  readonly defaultInputModes: readonly string[];
  readonly defaultOutputModes: readonly string[];
  readonly skills: readonly AgentSkill[];
  readonly provider?: AgentProvider;
  readonly documentationUrl?: string;
  readonly iconUrl?: string;
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  readonly securityRequirements?: readonly SecurityRequirement[];
  readonly signatures?: readonly AgentCardSignature[];
}
