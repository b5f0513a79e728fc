import { EclipticError } from '../../runtime/errors.js';
import type { NewSessionResponse } from './sdk.js';

/** The settings of an agent's sessions. Default: the agent's own choice. */
export interface SessionChoices {
  /** Id of the mode that sessions begin in, such as "read-only". */
  readonly mode?: string | undefined;
  /** Id of the model. */
  readonly model?: string | undefined;
  /** Values of further options that the agent offers, by their ids. */
  readonly options?: Readonly<Record<string, string | boolean>> | undefined;
}

type ConfigOption = NonNullable<NewSessionResponse['configOptions']>[number];
type Setting =
  | { readonly configId: string; readonly value: string }
  | { readonly configId: string; readonly type: 'boolean'; readonly value: boolean };

/** The models of a session before they became an option of it; Gemini CLI still lists them so. */
interface Models {
  readonly availableModels: readonly { readonly modelId: string }[];
  readonly currentModelId?: string;
}
type SessionWithModels = NewSessionResponse & { readonly models?: Models | null };

interface Changes {
  readonly modeId: string | undefined;
  readonly modelId: string | undefined;
  readonly settings: readonly Setting[];
}

/**
 * The changes to make in a session that was opened. Throws `INVALID_CONFIG` for a choice that the agent does not have: it
 * would go on with another one, perhaps a more permissive one.
 */
export function changesFor(agent: string, session: NewSessionResponse, choices: SessionChoices): Changes {
  requireModel(agent, session);
  const { mode, model, options = {} } = choices;
  const known = session.configOptions ?? [];
  const ofCategory = (category: string) => known.find((option) => option.category === category)?.id ?? category;
  const hasModes = session.modes != null;
  const { models } = session as SessionWithModels;
  const isListed = models != null && !known.some(({ category }) => category === 'model');
  const wanted = {
    ...(mode !== undefined &&
      !hasModes &&
      known.some(({ category }) => category === 'mode') && { [ofCategory('mode')]: mode }),
    ...(model !== undefined && !isListed && { [ofCategory('model')]: model }),
    ...options,
  };
  const settings = Object.entries(wanted).flatMap(([id, value]) => settingFor(agent, known, id, value));
  const modeId = mode !== undefined && !(ofCategory('mode') in wanted) ? modeFor(agent, session, mode) : undefined;
  const modelId = model !== undefined && isListed ? modelFor(agent, models, model) : undefined;
  return { modeId, modelId, settings };
}

function modelFor(agent: string, { availableModels, currentModelId }: Models, model: string): string | undefined {
  if (currentModelId === model) return undefined;
  const ids = availableModels.map(({ modelId }) => modelId);
  if (!ids.includes(model)) throw unknown(agent, 'model', model, ids, { model, models: ids });
  return model;
}

/** An agent that offers a choice of models and has none fails at every prompt, with an error that hides why. */
function requireModel(agent: string, { configOptions }: NewSessionResponse): void {
  const lacks = configOptions?.some(
    (option) => option.category === 'model' && option.type === 'select' && option.options.length === 0,
  );
  if (!lacks) return;
  const message = `${agent} has no model; choose one in its own settings, or log in to a service that has some`;
  throw new EclipticError('INVALID_CONFIG', message);
}

function modeFor(agent: string, { modes }: NewSessionResponse, mode: string): string | undefined {
  if (modes?.currentModeId === mode) return undefined;
  const ids = (modes?.availableModes ?? []).map(({ id }) => id);
  if (!ids.includes(mode)) throw unknown(agent, 'mode', mode, ids, { mode, modes: ids });
  return mode;
}

function settingFor(agent: string, known: readonly ConfigOption[], id: string, value: string | boolean): Setting[] {
  const option = known.find((one) => one.id === id);
  const ids = known.map((one) => one.id);
  if (!option) throw unknown(agent, 'option', id, ids, { option: id, options: ids });
  if (option.currentValue === value) return [];
  if (option.type === 'boolean' && typeof value === 'boolean') return [{ configId: id, type: 'boolean', value }];
  const values = option.type === 'boolean' ? ['true', 'false'] : option.options.flatMap(valuesOf);
  if (typeof value === 'string' && values.includes(value)) return [{ configId: id, value }];
  throw unknown(agent, id, String(value), values, { [id]: value, values });
}

/** Options may come in groups. */
function valuesOf(one: { value: string } | { options: readonly { value: string }[] }): string[] {
  return 'options' in one ? one.options.map(({ value }) => value) : [one.value];
}

function unknown(
  agent: string,
  what: string,
  given: string,
  has: readonly string[],
  details: Record<string, unknown>,
): EclipticError {
  const known = has.length === 0 ? 'it names none' : `it has: ${has.join(', ')}`;
  return new EclipticError('INVALID_CONFIG', `${agent} has no ${what} "${given}"; ${known}`, details);
}
