/**
 * Puts arguments into a template's `{{name}}` placeholders, in one pass: what an argument holds is never expanded
 * again. A name that is no argument stays as it is written.
 */
export function renderTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{\{([^{}]+)\}\}/g, (placeholder, inside: string) => {
    const name = inside.trim();
    return Object.hasOwn(values, name) ? values[name]! : placeholder;
  });
}
