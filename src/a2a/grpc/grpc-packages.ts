import type * as Grpc from '@grpc/grpc-js';
import type * as ProtoLoader from '@grpc/proto-loader';
import { EclipticError } from '../../runtime/errors.js';

export interface GrpcPackages {
  readonly grpc: typeof Grpc;
  readonly loader: typeof ProtoLoader;
}

/** The packages that speak gRPC, which who does not serve it need not have. `load` is how a package is had. */
export async function loadGrpc(load = (name: string): Promise<unknown> => import(name)): Promise<GrpcPackages> {
  try {
    const [grpc, loader] = await Promise.all([load('@grpc/grpc-js'), load('@grpc/proto-loader')]);
    return { grpc: grpc as typeof Grpc, loader: loader as typeof ProtoLoader };
  } catch (error) {
    const message = 'gRPC needs two packages more: npm install @grpc/grpc-js @grpc/proto-loader';
    throw new EclipticError('PACKAGE_REQUIRED', message, { packages: ['@grpc/grpc-js', '@grpc/proto-loader'] }, error);
  }
}
