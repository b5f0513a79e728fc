import { z } from 'zod';
import type { Message, Part } from '../a2a/protocol/types.js';
import { cutText } from '../runtime/text.js';

/** The key of a `TaskActivity` in the metadata of a progress message's part: the text is for people, this for programs. */
const ACTIVITY = 'ecliptic/activity';

const MAX_CHARS = 500;
const MAX_ENTRIES = 100;

const shortText = z.string().transform((said) => cutText(said, MAX_CHARS));

const ActivitySchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('thought') }),
  z.object({
    kind: z.literal('plan'),
    entries: z
      .array(z.object({ content: shortText, status: z.enum(['pending', 'in_progress', 'completed']) }))
      .max(MAX_ENTRIES),
  }),
  z.object({
    kind: z.literal('tool-call'),
    /** Later reports of the same call have the same id. */
    id: shortText,
    title: shortText,
    /** What the tool does, such as `read`, `edit`, `execute`; any word may come. */
    purpose: shortText.optional(),
    status: z.enum(['pending', 'in_progress', 'completed', 'failed']).optional(),
  }),
  /** The work waits for a decision of the agent's owner, or no longer. */
  z.object({ kind: z.literal('approval'), id: shortText, open: z.boolean() }),
]);

/** What an agent at work does, for programs that show it: editors, front ends. */
export type TaskActivity = Readonly<z.infer<typeof ActivitySchema>>;

/** A progress message about an activity. */
export function activityParts(text: string, activity: TaskActivity): readonly Part[] {
  // What an agent says is cut to its limits here, so that the reader finds every activity whole.
  const { success, data } = ActivitySchema.safeParse(limited(activity));
  return [{ text, ...(success && { metadata: { [ACTIVITY]: data } }) }];
}

function limited(activity: TaskActivity): TaskActivity {
  return activity.kind === 'plan' ? { ...activity, entries: activity.entries.slice(0, MAX_ENTRIES) } : activity;
}

/** The activity in a message that may come from another node. */
export function activityIn({ parts }: Pick<Message, 'parts'>): TaskActivity | undefined {
  for (const { metadata } of parts) {
    if (metadata?.[ACTIVITY] === undefined) continue;
    const { data } = ActivitySchema.safeParse(metadata[ACTIVITY]);
    return data;
  }
  return undefined;
}
