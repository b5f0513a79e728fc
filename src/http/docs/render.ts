import { Marked } from 'marked';

export interface RenderedPage {
  readonly title: string;
  readonly html: string;
}

/** Where a link of a page leads on the node; undefined where the node does not serve its target. */
export type LinkTarget = (href: string) => string | undefined;

/** Markdown as HTML, without any HTML of its own: tags in a page are shown as text. */
export function renderMarkdown(text: string, target: LinkTarget): RenderedPage {
  const ids = new Map<string, number>();
  let title = '';
  const marked = new Marked({ gfm: true });
  marked.use({
    renderer: {
      html: ({ text }) => escapeHtml(text),
      heading({ tokens, depth, text }) {
        const id = uniqueId(ids, slug(text));
        if (title === '') title = plain(text);
        return `<h${depth} id="${escapeHtml(id)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const label = this.parser.parseInline(tokens);
        const to = target(href);
        return to === undefined ? label : `<a href="${escapeHtml(to)}">${label}</a>`;
      },
      image({ href, text }) {
        const from = target(href);
        return from === undefined || /^\w+:/.test(from)
          ? escapeHtml(text)
          : `<img src="${escapeHtml(from)}" alt="${escapeHtml(text)}">`;
      },
      // Wide tables scroll by themselves, so that the page does not.
      table({ header, rows }) {
        const cells = (row: typeof header, tag: 'th' | 'td') =>
          `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`;
        const body = rows.map((row) => cells(row, 'td')).join('\n');
        return `<div class="wide"><table><thead>${cells(header, 'th')}</thead><tbody>${body}</tbody></table></div>\n`;
      },
    },
  });
  return { html: marked.parse(text, { async: false }), title };
}

/** The id of a heading, by the rule that links to it follow. */
export function slug(heading: string): string {
  return plain(heading)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

function plain(heading: string): string {
  return heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '');
}

function uniqueId(used: Map<string, number>, id: string): string {
  const times = used.get(id) ?? 0;
  used.set(id, times + 1);
  return times === 0 ? id : `${id}-${times}`;
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
