import { createNode } from 'ecliptic';

const node = await createNode();
const mars = node.agent({ id: 'mars', capabilities: ['backend.api'] });
mars.onRequest((message) => ({ built: message.payload }));

const sun = node.agent({ id: 'sun' });
const answer = await sun.request('mars', { page: 'login' });
console.log(answer); // { built: { page: 'login' } }

await node.stop();
