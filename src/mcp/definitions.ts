import { z } from 'zod';
import { weighJson } from '../mesh/json-value.js';
import { LIMITS } from '../mesh/limits.js';

/** Offers in MCP's own shape, except that names are the agent's own. */

const name = z.string().regex(/^[A-Za-z0-9_.\-/]{1,128}$/, 'must be 1 to 128 letters, digits, _ - . or /');
const text = z.string().max(65_536);
const label = z.string().max(LIMITS.textChars);
const json = z.record(z.string(), z.unknown());
const common = { title: label.optional(), description: text.optional(), icons: z.array(json).max(16).optional() };
const meta = { annotations: json.optional(), _meta: json.optional() };

const uri = z.string().min(1).max(2_048);

export const ToolDefinitionSchema = z.strictObject({
  kind: z.literal('tool'),
  name,
  ...common,
  ...meta,
  /** JSON Schema of the arguments, which are an object. */
  inputSchema: z.looseObject({ type: z.literal('object') }),
  /** JSON Schema of `structuredContent`. */
  outputSchema: json.optional(),
  execution: z
    .strictObject({
      taskSupport: z.enum(['optional', 'required']),
      /** Questions come before the task: a call is a task once it has its answers. */
      asksFirst: z.boolean().optional(),
    })
    .optional(),
});

export const ResourceDefinitionSchema = z.strictObject({
  kind: z.literal('resource'),
  uri,
  name: z.string().min(1).max(LIMITS.nameChars),
  ...common,
  ...meta,
  mimeType: label.optional(),
  size: z.int().nonnegative().optional(),
});

export const TemplateDefinitionSchema = z.strictObject({
  kind: z.literal('template'),
  uriTemplate: uri,
  name: z.string().min(1).max(LIMITS.nameChars),
  ...common,
  ...meta,
  mimeType: label.optional(),
});

export const PromptDefinitionSchema = z.strictObject({
  kind: z.literal('prompt'),
  name,
  ...common,
  _meta: json.optional(),
  arguments: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(LIMITS.nameChars),
        title: label.optional(),
        description: label.optional(),
        required: z.boolean().optional(),
      }),
    )
    .max(64)
    .optional(),
});

/**
 * All definitions travel together as JSON to nodes and clients, so one that cannot be serialised would hold back all.
 */
export const DefinitionSchema = z
  .discriminatedUnion('kind', [
    ToolDefinitionSchema,
    ResourceDefinitionSchema,
    TemplateDefinitionSchema,
    PromptDefinitionSchema,
  ])
  .superRefine((definition, context) => {
    const weighed = weighJson(definition);
    if (typeof weighed === 'number') return;
    context.addIssue({ code: 'custom', message: `${weighed.path} ${weighed.problem}`.trim() });
  });

export type ToolDefinition = z.infer<typeof ToolDefinitionSchema>;
export type ResourceDefinition = z.infer<typeof ResourceDefinitionSchema>;
export type TemplateDefinition = z.infer<typeof TemplateDefinitionSchema>;
export type PromptDefinition = z.infer<typeof PromptDefinitionSchema>;
export type Definition = z.infer<typeof DefinitionSchema>;
export type Kind = Definition['kind'];
export const KindSchema = z.enum(['tool', 'resource', 'template', 'prompt']) satisfies z.ZodType<Kind>;

/** Unique among the definitions of its kind and owner. */
export function keyOf(definition: Definition): string {
  switch (definition.kind) {
    case 'resource':
      return definition.uri;
    case 'template':
      return definition.uriTemplate;
    default:
      return definition.name;
  }
}
