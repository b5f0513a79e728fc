import { systemRuntime } from '../../runtime/system-runtime.js';
import { sweep } from './sweep.js';

/** The guard runs this when its node is gone. */
const runtime = systemRuntime();
const hold = runtime.hold();
void sweep(runtime, process.argv[2]!).finally(() => hold.cancel());
