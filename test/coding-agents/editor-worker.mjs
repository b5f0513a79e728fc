/** An agent without a brain that an editor works with. */
export function setup(agent) {
  agent.onTask(async (task) => {
    const [word, ...rest] = task.text.split(' ');
    if (word === 'question') {
      const { parts } = await task.ask('which file?');
      return `so ${parts[0].text}`;
    }
    if (word === 'hold') {
      task.progress('holding');
      return new Promise((_, reject) => {
        task.signal.addEventListener('abort', () => reject(task.signal.reason));
      });
    }
    if (word === 'fail') throw new Error('no disk');
    if (word === 'refuse') return task.reject('not for me');
    if (word === 'files') {
      const parts = task.message.parts.filter(({ raw }) => raw);
      return parts.map(({ raw, filename }) => `${filename}: ${Buffer.from(raw, 'base64')}`).join(', ');
    }
    const call = async (tool, args) => {
      const { content } = await agent.mcp.call(tool, args).catch((error) => ({ content: [{ text: error.message }] }));
      return content[0].text;
    };
    if (word === 'read') return call('editor.read_file', { path: rest[0] });
    if (word === 'write') return call('editor.write_file', { path: rest[0], content: rest.slice(1).join(' ') });
    return `you said ${task.text}`;
  });
}
