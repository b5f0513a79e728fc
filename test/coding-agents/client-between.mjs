// A client as a process of its own, between a test and `ecliptic mcp`: killed, it leaves its server behind as real ones do.
import { spawn } from 'node:child_process';

const server = spawn(process.execPath, process.argv.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });
server.stdin.on('error', () => {});
process.stdin.pipe(server.stdin);
server.stdout.pipe(process.stdout);
server.once('close', () => process.exit(0));
process.send(server.pid);
