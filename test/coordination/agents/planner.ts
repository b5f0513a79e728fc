import type { Agent } from '../../../src/index.js';

interface Question {
  readonly goal: string;
  readonly faults?: readonly string[];
}

/** Makes a plan for the writer: with a fault at first, and without once it is told. */
export function setup(agent: Agent): void {
  agent.onRequest(({ payload }) => {
    const { goal, faults } = payload as Question;
    const tasks = [
      { id: 'draft', description: `Draft: ${goal}`, agent: 'writer' },
      { id: 'final', description: 'Finish it.', capabilities: ['writing'], dependsOn: [faults ? 'draft' : 'sketch'] },
    ];
    return `The plan:\n\`\`\`json\n${JSON.stringify({ name: 'made', tasks })}\n\`\`\`\n`;
  });
}
