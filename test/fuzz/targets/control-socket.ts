import { EventEmitter } from 'node:events';
import { StringDecoder } from 'node:string_decoder';
import { API } from '../../../src/node/control/api.js';
import { checkRequest, errorFrom, negotiate, readFrames } from '../../../src/node/control/protocol.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';

class Pieces extends EventEmitter {
  #decoder = new StringDecoder('utf8');
  setEncoding(): void {}
  push(bytes: Buffer): void {
    const text = this.#decoder.write(bytes);
    if (text !== '') this.emit('data', text);
  }
}

function framesOf(input: Buffer, size: number): unknown[] {
  const socket = new Pieces();
  const frames: unknown[] = [];
  readFrames(socket as never, {
    onFrame: (frame) => frames.push(frame),
    onFault: (fault) => frames.push(fault.code),
  });
  for (let at = 0; at < input.length; at += size) socket.push(input.subarray(at, at + size));
  return frames;
}

/** The frames are the same however they are cut; parameters that are taken are taken again. */
export const target: FuzzTarget = {
  name: 'control-socket',
  about: 'the control socket, and the parameters of its operations',
  seeds: [
    '{"hello":{"min":1,"max":1}}\n{"id":1,"method":"status","params":{}}\n',
    '{"id":2,"method":"send","params":{"from":"sun","to":"mars","payload":{"a":1},"durable":true}}\n',
    '{"id":3,"method":"taskSend","params":{"agent":"mars","text":"x"}}\nnonsense\n',
    '{"id":-1,"error":{"code":"USAGE","message":"m","details":{"a":1}}}\n',
  ],
  words: Object.keys(API)
    .slice(0, 100)
    .map((name) => `"${name}"`),
  run(input) {
    const frames = framesOf(input, input.length || 1);
    mustEqual(framesOf(input, 1), frames, 'byte by byte');
    for (const frame of frames) {
      unlessRefused(() => negotiate(frame));
      must(errorFrom(frame) instanceof Error, () => 'no error');
      const request = unlessRefused(() => checkRequest(frame));
      const operation =
        request && Object.hasOwn(API, request.method) ? API[request.method as keyof typeof API] : undefined;
      const params = operation?.params.safeParse(request!.params);
      if (params?.success) {
        const again = operation!.params.safeParse(JSON.parse(JSON.stringify(params.data)));
        mustEqual(again.data, params.data, `parameters of ${request!.method}, read twice`);
      }
    }
  },
};
