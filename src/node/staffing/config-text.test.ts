import { describe, expect, it } from 'vitest';
import { readJson } from '../../coding-agents/setup/entries.js';
import { readStaffedConfig, staffedText } from './config-text.js';
import type { FoundWorker } from './found.js';

const CODER: FoundWorker = {
  kind: 'acp',
  title: 'Gemini CLI',
  why: 'logged in',
  config: { acp: { command: 'gemini', args: ['--acp'], cwd: '.' } },
};
const BRAIN: FoundWorker = {
  kind: 'model',
  title: 'qwen3',
  why: 'answers',
  config: { model: { baseUrl: 'http://127.0.0.1:11434/v1', model: 'qwen3', cwd: '.' } },
};
const TESTS: FoundWorker = {
  kind: 'exec',
  title: 'npm test',
  why: 'script',
  config: { exec: 'npm test' },
  role: 'saturn',
};

const saturn = { role: 'saturn', workers: [TESTS] };
const mars = { role: 'mars', workers: [CODER, BRAIN] };

describe('the text of ecliptic.json', () => {
  it.each([undefined, '', ' \n', '\ufeff'])('is made with a schema where there is none: %j [WK.S4]', (text) => {
    const written = staffedText(text, [saturn, mars]);
    expect(written.replace(/^\ufeff/, '')).toBe(`{
  "$schema": "./node_modules/ecliptic/schema/ecliptic.schema.json",
  "agents": {
    "saturn": { "exec": "npm test" },
    "mars": [
      { "acp": { "command": "gemini", "args": ["--acp"], "cwd": "." } },
      { "model": { "baseUrl": "http://127.0.0.1:11434/v1", "model": "qwen3", "cwd": "." } }
    ]
  }
}
`);
  });

  it('keeps comments, order, trailing commas and layout, and adds lines only [WK.S4]', () => {
    const before = `// worker, worker-: words of the file
{
    /* data */ "data":   "./state",
    "agents": {
        "venus": { "module": "./venus.mjs" }, // stays
        "pluto": { "tier": 2 /* as planned */ },
    },
    "log": "warn", // quiet
}
`;
    const pluto = { role: 'pluto', workers: [BRAIN] };
    const after = staffedText(before, [saturn, pluto, mars]);
    expect(after).toBe(`// worker, worker-: words of the file
{
    /* data */ "data":   "./state",
    "agents": {
        "venus": { "module": "./venus.mjs" }, // stays
        "pluto": { "tier": 2, "model": { "baseUrl": "http://127.0.0.1:11434/v1", "model": "qwen3", "cwd": "." } /* as planned */ },
        "saturn": { "exec": "npm test" },
        "mars": [
            { "acp": { "command": "gemini", "args": ["--acp"], "cwd": "." } },
            { "model": { "baseUrl": "http://127.0.0.1:11434/v1", "model": "qwen3", "cwd": "." } }
        ],
    },
    "log": "warn", // quiet
}
`);
  });

  it.each([
    ['{}', '{"agents":{"saturn":{"exec":"npm test"}}}'],
    ['{"log":"warn"}', '{"log":"warn","agents":{"saturn":{"exec":"npm test"}}}'],
    ['{\r\n\t"agents": {}\r\n}\r\n', '{"agents":{"saturn":{"exec":"npm test"}}}'],
    ['\ufeff{ "agents": { "saturn": [] } }', '{"agents":{"saturn":{"exec":"npm test"}}}'],
    ['{ "agents": { "saturn": {} } }', '{"agents":{"saturn":{"exec":"npm test"}}}'],
  ])('of %j gets the worker [WK.S4]', (before, after) => {
    const written = staffedText(before, [saturn]);
    expect(JSON.stringify(readJson(written.replace(/^\ufeff/, '')))).toBe(after);
    expect(written.startsWith('\ufeff')).toBe(before.startsWith('\ufeff'));
    expect(/[^\r]\n/.test(written)).toBe(/[^\r]\n/.test(before));
  });

  it.each([
    ['{ "agents": { "mars": {} }, "agents": {} }', 'twice'],
    ['{ "agents": [] }', '"agents" is not an object'],
    ['{ "agents": { "mars": "me" } }', 'agents.mars is neither'],
    ['{ "agents": ', 'not valid JSON'],
    ['[]', 'holds no object'],
    ['// nothing', 'not valid JSON'],
  ])('is left alone where it cannot be edited safely: %s [WK.S4]', (text, reason) => {
    expect(() => staffedText(text, [saturn])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringContaining(reason) }),
    );
  });

  it('may have faults elsewhere', () => {
    expect(readStaffedConfig('{ "colour": "red", "roster": false }')).toEqual({
      colour: 'red',
      roster: false,
      agents: {},
    });
  });
});
