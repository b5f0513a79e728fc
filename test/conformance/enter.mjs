// The program that the suite starts for each scenario: forwards it to the clients' host, and exits with its result.
const [door, url] = process.argv.slice(2);
const context = process.env.MCP_CONFORMANCE_CONTEXT ?? '{}';
const response = await fetch(door, { method: 'POST', body: JSON.stringify({ url, context: JSON.parse(context) }) });
process.stderr.write(await response.text());
process.exitCode = response.ok ? 0 : 1;
