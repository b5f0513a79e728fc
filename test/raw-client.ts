import { ControlClient } from '../src/node/control/client.js';

/** A control client that calls any method with any parameters, as a program of another version might. */
export type RawClient = Omit<ControlClient, 'call'> & {
  call<T = unknown>(method: string, params?: object, onEvent?: (event: unknown) => void): Promise<T>;
};

export function rawClient(client: ControlClient): RawClient {
  return client as unknown as RawClient;
}

export async function connectRaw(path: string): Promise<RawClient> {
  return rawClient(await ControlClient.connect(path));
}
