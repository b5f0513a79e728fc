import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/server';
import type { Entry } from './catalogue.js';
import type { PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition } from './definitions.js';
import type { McpService } from './service.js';
import type { NameStyle } from './wire-names.js';

/** What is in the catalogue, as MCP lists show it: under names on the wire, with the owner beside. */

export function shownTool(service: McpService, entry: Entry<ToolDefinition>, style: NameStyle): Tool {
  return { ...plain(entry), name: service.names.nameOf(entry, style) } as Tool;
}

export function shownPrompt(service: McpService, entry: Entry<PromptDefinition>, style: NameStyle): Prompt {
  return { ...plain(entry), name: service.names.nameOf(entry, style) } as Prompt;
}

export function shownResource(service: McpService, entry: Entry<ResourceDefinition>): Resource {
  return { ...plain(entry), uri: service.uriOf(entry) } as Resource;
}

export function shownTemplate(entry: Entry<TemplateDefinition>): ResourceTemplateType {
  return plain(entry) as ResourceTemplateType;
}

function plain({ definition, owner, fullName }: Entry): object {
  const { kind: _, _meta, ...rest } = definition;
  const own = definition.kind === 'tool' || definition.kind === 'prompt' ? { 'ecliptic/name': fullName } : {};
  return { ...rest, _meta: { ..._meta, 'ecliptic/agent': owner, ...own } };
}
