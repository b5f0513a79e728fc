import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { GrpcInit } from '../a2a/grpc/grpc-binding.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { HttpConfig } from './config/edge-schema.js';

type Files = NonNullable<HttpConfig['grpcTls']>;

/** The certificates that a configuration names; paths are relative to its folder. */
export async function readTls(folder: string, { cert, key, clientCa }: Files): Promise<NonNullable<GrpcInit['tls']>> {
  const read = (name: keyof Files, file: string) =>
    readFile(resolve(folder, file), 'utf8').catch((error) => {
      const message = `http.grpcTls.${name}: ${file} cannot be read: ${describeError(error)}`;
      throw new EclipticError('INVALID_CONFIG', message, { faults: [`http.grpcTls.${name}`] }, error);
    });
  const [certificate, own, authorities] = await Promise.all([
    read('cert', cert),
    read('key', key),
    clientCa === undefined ? undefined : read('clientCa', clientCa),
  ]);
  return { cert: certificate, key: own, ...(authorities !== undefined && { clientCa: authorities }) };
}
