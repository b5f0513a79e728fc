// The program that the suite starts for each scenario: forwards it to the clients' host, and exits with its result.
const [door, url] = process.argv.slice(2);
const { MCP_CONFORMANCE_CONTEXT: context = '{}', MCP_CONFORMANCE_SCENARIO: scenario = '' } = process.env;
const body = JSON.stringify({ url, context: JSON.parse(context), scenario });
const response = await fetch(door, { method: 'POST', body });
process.stderr.write(await response.text());
process.exitCode = response.ok ? 0 : 1;
