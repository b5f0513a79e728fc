/** Size limits of cards and envelopes. `docs/limits.md` gives the reason for each. */
export const LIMITS = {
  /** UTF-8 bytes of a payload's JSON. */
  payloadBytes: 1_048_576,
  /** Levels of arrays and objects in a payload. */
  payloadDepth: 64,
  /** Characters of an agent id, without its node. */
  agentIdChars: 64,
  /** Characters of any other id: envelope, correlation, capability, sandbox, node. */
  idChars: 128,
  /** Characters of a name, version, protocol or endpoint address. */
  nameChars: 256,
  /** Characters of a description or an escalation justification. */
  textChars: 4_096,
  /** Entries of each list on a card. */
  cardListEntries: 256,
  /** UTF-8 bytes of one capability schema's JSON. */
  capabilitySchemaBytes: 65_536,
  /** Characters of a serialized envelope: its payload at its largest, plus everything around it. */
  envelopeChars: 1_048_576 + 65_536,
} as const;
