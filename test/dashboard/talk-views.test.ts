import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { describe, expect, it, vi } from 'vitest';
import type { InvocationRecord } from '../../src/mcp/invocations.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { MARKUP } from './agents/desk.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 120_000 });

const DESK = fileURLToPath(new URL('./agents/desk.ts', import.meta.url));

function start(cluster: Cluster): Promise<ProcessNode> {
  return cluster.start('desk', {
    args: ['--no-dht'],
    config: { agents: { desk: { module: DESK, capabilities: ['talk'] } } },
    env: { ECLIPTIC_LOG: 'warn' },
  });
}

async function isHarmless(page: Page, faults: readonly string[]): Promise<void> {
  expect(await page.evaluate('window.hacked')).toBeUndefined();
  expect(await page.locator('main :is(b, img, script, iframe)').count()).toBe(0);
  expect(faults).toEqual([]);
}

describe('the views of conversations', () => {
  it(
    'list mail and conversations, and send the owner’s reply [FC.62 FC.69]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.keyboard.press('g');
      await page.keyboard.press('m');
      await page.getByText('No conversation is in the journal yet.').waitFor();
      await page.getByRole('tab', { name: 'Outbox' }).click();
      await page.getByText('The outbox is empty').waitFor();
      await page.getByRole('tab', { name: 'Inbox' }).click();
      await page.getByText('Nothing is in the inbox of operator.').waitFor();

      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      const [told] = idsIn(await alice.call('mesh_send', { to: 'operator', text: `Which? ${MARKUP}`, needs: 'reply' }));
      const inbox = page.getByRole('table', { name: 'Inbox' });
      await inbox.getByRole('link', { name: `Which? ${MARKUP}` }).click();
      await page.locator('.talk li', { hasText: `Which? ${MARKUP}` }).waitFor();
      await page.getByRole('form', { name: 'Reply' }).getByLabel('Your reply').fill('Use 1.2.');
      await page.getByRole('form', { name: 'Reply' }).getByRole('button', { name: 'Send' }).click();
      await page.locator('.talk .is-own', { hasText: 'Use 1.2.' }).waitFor();
      expect(await alice.call('mesh_inbox')).toContain('Use 1.2.');
      expect(await node.json<{ state: string }>('receipt', told!)).toMatchObject({ state: 'replied' });
      // The receipt of the reply, in the words of the catalogue.
      await page
        .locator('.talk .is-own')
        .getByText(/arrived|surfaced|read|done/)
        .waitFor();

      // Without open mail, the owner begins a conversation.
      await page.getByLabel(/Your message to alice/).fill('And thank you.');
      await page.getByRole('main').getByRole('button', { name: 'Send' }).click();
      await page.locator('.talk li', { hasText: 'And thank you.' }).waitFor();
      expect(await alice.call('mesh_inbox')).toContain('And thank you.');
      await page.getByRole('navigation').getByRole('link', { name: 'Mail' }).click();
      await page.getByRole('tab', { name: 'Conversations' }).click();
      const threads = page.getByRole('table', { name: 'Conversations' });
      await threads.getByRole('link', { name: 'And thank you.' }).waitFor();
      await isHarmless(page, faults);
    }),
  );

  it(
    'search the journal for old messages, page by page [FC.63]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      for (let number = 0; number < 130; number++) {
        const payload = { text: `needle ${number} ${MARKUP}` };
        await node.call('send', { as: 'sun', to: 'desk', payload, type: 'notification', thread: `t-${number % 3}` });
      }
      await node.call('send', { as: 'sun', to: 'desk', payload: 'hay', type: 'notification', thread: 'hay' });
      // The journal is written after the messages were delivered.
      const inJournal = async () => (await node.run('log', '--text', 'hay', '--json')).stdout.includes('hay');
      await until(inJournal, 'the journal has the last message');
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('heading').first().waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('needle');
      await page.keyboard.press('Enter');
      const found = page.getByRole('list', { name: 'Messages found, newest first' });
      await found.getByText('needle 129 <script>').waitFor();
      expect(await found.getByRole('listitem').count()).toBe(100);
      expect(await found.textContent()).not.toContain('hay');
      await page.getByRole('button', { name: 'Earlier' }).click();
      await found.getByText('needle 0 ').waitFor();
      expect(await found.getByRole('listitem').count()).toBe(30);
      await page.goto(`${node.ready.http}/#/messages/nowhere`);
      await page.getByText('No message of the journal has these words.').waitFor();

      await page.goto(`${node.ready.http}/#/mail`);
      const threads = page.getByRole('table', { name: 'Conversations' });
      const thread = threads.getByRole('link', { name: 'needle 128' });
      const search = page.getByRole('searchbox', { name: 'Search conversations' });
      await until(async () => {
        await search.fill('needle 128');
        await search.press('Enter');
        return thread.waitFor({ timeout: 5_000 }).then(
          () => true,
          () => false,
        );
      }, 'the conversation is found');
      await thread.click();
      const talk = page.locator('.talk li');
      await talk.first().waitFor();
      expect(await talk.count()).toBe(43);
      await isHarmless(page, faults);
    }),
  );

  it(
    'send a message, a request, a task and a tool call, and show a refusal [FC.68 FC.69]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.keyboard.press('g');
      await page.keyboard.press('c');
      const form = page.getByRole('form', { name: 'Send as the operator' });
      const send = async (what: string, to: string, field: string, text: string) => {
        await form.getByLabel('What').selectOption(what);
        await form.getByLabel(what === 'tool' ? 'Tool' : 'To', { exact: true }).fill(to);
        await form.getByLabel(field, { exact: true }).fill(text);
        await form.getByRole('button', { name: 'Send' }).click();
      };
      const status = page.getByRole('main').getByRole('status');
      await send('message', 'desk', 'Payload', `hello ${MARKUP}`);
      await status.getByText('delivered').waitFor();
      const [line] = (await node.json<{ sender: string; recipient: string }[]>('log', '--text', 'hello')).slice(-1);
      expect(line).toMatchObject({ sender: 'operator', recipient: 'desk' });

      await form.getByRole('combobox', { name: 'As', exact: true }).selectOption('mercury');
      await send('message', 'mars', 'Payload', '{"build": true}');
      await status.getByText('TIER_VIOLATION').waitFor();
      await form.getByRole('combobox', { name: 'As', exact: true }).selectOption('operator');

      await send('request', 'desk', 'Payload', '{"a": 1}');
      await status.getByText('"a": 1').waitFor();
      expect(await status.textContent()).toContain(MARKUP.slice(0, 8));
      await send('task', 'desk', 'Task', 'the report');
      await status.getByText('did the report').waitFor();
      await send('tool', 'desk.measure', 'Arguments', '{ not json');
      await form.getByText('This is not JSON').waitFor();
      await send('tool', 'desk.measure', 'Arguments', '{"what":"desk","times":2,"unit":"mm"}');
      await status.getByText('"times": 2').first().waitFor();

      // A task of the list opens the form again, filled in.
      await page.getByRole('navigation').getByRole('link', { name: 'Tasks' }).click();
      await page.getByRole('table', { name: 'Tasks' }).getByRole('link', { name: 'the report' }).click();
      await page.getByRole('link', { name: 'Run again' }).click();
      expect(await form.getByLabel('Task', { exact: true }).inputValue()).toBe('the report');
      await form.getByRole('button', { name: 'Send' }).click();
      await status.getByText('did the report').waitFor();
      await isHarmless(page, faults);
    }),
  );

  it(
    'call a tool from the form of its schema, and show the result and the record [FC.65 FC.69]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('link', { name: 'Tools' }).click();
      await page.getByRole('searchbox', { name: 'Search tools' }).fill('measures THING');
      const tool = page.getByRole('table', { name: 'Tools' }).getByRole('link', { name: 'desk.measure' });
      await tool.waitFor();
      expect(await page.getByRole('table', { name: 'Tools' }).locator('tbody tr').count()).toBe(1);
      await page.getByText('No MCP server is configured.').waitFor();
      await tool.click();
      const form = page.getByRole('form', { name: 'Call desk.measure' });
      await form.getByLabel('what (required)').fill(`a desk ${MARKUP}`);
      await form.getByLabel('times (required)').fill('many');
      await form.getByRole('button', { name: 'Call' }).click();
      await form.getByText('must be a whole number').waitFor();
      expect(await node.call('invocations')).toEqual([]);
      await form.getByLabel('times (required)').fill('3');
      await form.getByLabel('unit (required)').selectOption('inch');
      await form.getByLabel('exact').selectOption('true');
      await form.getByLabel('box').fill('{"width": 1.5}');
      await form.getByRole('button', { name: 'Call' }).click();
      await page.locator('.result').getByText('a desk').first().waitFor();
      const record = page.getByRole('table', { name: 'Latest calls' }).locator('tbody tr');
      await record.getByText('done').waitFor();
      const [kept] = await node.call<InvocationRecord[]>('invocations');
      expect(kept).toMatchObject({
        tool: 'desk.measure',
        caller: 'operator',
        arguments: { what: `a desk ${MARKUP}`, times: 3, unit: 'inch', exact: true, box: { width: 1.5 } },
      });
      // A result does not stand beside arguments that it is not of.
      await form.getByLabel('times (required)').fill('few');
      await form.getByRole('button', { name: 'Call' }).click();
      await form.getByText('must be a whole number').waitFor();
      expect(await page.locator('.result').count()).toBe(0);
      const focused = form.locator('input:focus');
      await focused.waitFor();
      expect(await focused.inputValue()).toBe('few');
      await isHarmless(page, faults);
    }),
  );
});
