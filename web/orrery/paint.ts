/** Colours and fonts of the page's tokens, for the canvas. */
export interface Paint {
  readonly ground: string;
  readonly panel: string;
  readonly line: string;
  readonly text: string;
  readonly dim: string;
  readonly accent: string;
  readonly good: string;
  readonly busy: string;
  readonly warn: string;
  readonly bad: string;
  readonly font: string;
  readonly titleFont: string;
}

const TOKENS = ['ground', 'panel', 'line', 'text', 'dim', 'accent', 'good', 'busy', 'warn', 'bad'] as const;

export function paintOf(element: Element): Paint {
  const style = getComputedStyle(element);
  const colours = Object.fromEntries(TOKENS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  const family = style.getPropertyValue('--mono').trim() || 'monospace';
  return {
    ...(colours as Record<(typeof TOKENS)[number], string>),
    font: `11px ${family}`,
    titleFont: `600 12px ${family}`,
  };
}
