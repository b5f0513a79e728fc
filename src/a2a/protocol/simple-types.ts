/** The simple task interface: four states, text parts, ISO times. */

export type A2ATaskState = 'submitted' | 'working' | 'completed' | 'failed';

export interface A2AMessage {
  readonly role: 'user' | 'agent';
  readonly parts: readonly { readonly type: 'text'; readonly text: string }[];
}

export interface A2ATask {
  readonly id: string;
  readonly state: A2ATaskState;
  readonly messages: readonly A2AMessage[];
  readonly sessionId: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What `tasks/send` gets; the members of `params` are also taken at the top level. */
export interface A2ATaskSendRequest {
  readonly method: 'tasks/send';
  readonly params: A2ATaskSendParams;
}

export interface A2ATaskSendParams {
  readonly message: string;
  readonly skill?: string;
  readonly timeoutMs?: number;
}

export interface RemoteInvocationResult {
  readonly success: boolean;
  readonly taskId: string;
  readonly responseText?: string;
  readonly error?: string;
}

export interface A2AAgentSkill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
}

export interface A2AProtocolExtension {
  readonly protocol: string;
  readonly description: string;
  readonly endpoint?: string;
}

export interface A2AAgentCard {
  readonly name: string;
  readonly description: string;
  readonly url: string;
  readonly provider?: { readonly organization: string; readonly url: string };
  readonly version: string;
  readonly documentationUrl?: string;
  readonly capabilities: {
    readonly streaming?: boolean;
    readonly pushNotifications?: boolean;
    readonly stateTransitionHistory?: boolean;
  };
  readonly authentication: { readonly schemes: readonly string[]; readonly credentials?: string };
  readonly defaultInputModes: readonly string[];
  readonly defaultOutputModes: readonly string[];
  readonly skills: readonly A2AAgentSkill[];
  readonly supportedProtocols?: readonly A2AProtocolExtension[];
}
