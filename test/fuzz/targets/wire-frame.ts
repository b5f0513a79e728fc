import {
  AnnouncedSchema,
  CardsSchema,
  ChannelAnswerSchema,
  ChannelOpenSchema,
  decodeFrame,
  encodeData,
  encodeFrame,
  HelloSchema,
  IdsSchema,
  JoinSchema,
  KnownSchema,
  MembersSchema,
  OpeningSchema,
  parsed,
  RefusedSchema,
  RestedSchema,
  readData,
  WelcomeSchema,
} from '../../../src/network/peers/wire.js';
import { type FuzzTarget, mustEqual, unlessRefused } from '../fuzz-target.js';

const key = 'ab'.repeat(32);
const SCHEMAS = [
  OpeningSchema,
  HelloSchema,
  JoinSchema,
  WelcomeSchema,
  RefusedSchema,
  RestedSchema,
  MembersSchema,
  KnownSchema,
  AnnouncedSchema,
  CardsSchema,
  IdsSchema,
  ChannelOpenSchema,
  ChannelAnswerSchema,
];

/** A data frame that is read and written again is the same; no other frame breaks a reader of its kind. */
export const target: FuzzTarget = {
  name: 'wire-frame',
  about: 'frames between nodes',
  seeds: [
    '["d",1,1,0,[],[["m",1,"id","sun","mars","notification",1,"hi"]]]',
    '["d",4,2,7,[[3,"TIER_VIOLATION","no"]],[["c",[],[]],["g",["sun"]]]]',
    `["hello",{"protocol":{"min":1,"max":5},"software":"ecliptic","time":1,"chain":null,"proof":"x","session":"s","addresses":["ws://127.0.0.1:1"]}]`,
    `["join",{"protocol":{"min":1,"max":5},"software":"e","invite":"i","proof":"p","name":"n"}]`,
    `["k",[["${key}",["ws://h:1"],1,"sig"]]]`,
    '["o","channel","sun@x","mars"]',
    '["rest",3,[]]',
    '["p"]',
  ],
  words: ['"d"', '"m"', ',[],[', 'null', '9007199254740993', '-1', '1e308', '"__proto__"', '\\ud800'],
  run(input) {
    const frame = decodeFrame(input);
    mustEqual(decodeFrame(encodeFrame(frame)), frame, 'a frame written and read');
    for (const schema of SCHEMAS) {
      unlessRefused(() => parsed<unknown>(schema, frame[1]));
      unlessRefused(() => parsed<unknown>(schema, frame.slice(1)));
    }
    const data = readData(frame);
    const { first, base, received, refusals, items } = data;
    const runs = items.map((item) => Buffer.from(JSON.stringify(item)));
    mustEqual(readData(decodeFrame(encodeData(first, base, received, refusals, runs))), data, 'a data frame');
  },
};
