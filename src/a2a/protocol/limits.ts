/** Limits of A2A requests, answers and cards. `docs/limits.md` gives the reason for each. */
export const A2A_LIMITS = {
  /** Characters of a task, context, message, artifact or configuration id; clients choose context ids. */
  idChars: 256,
  /** Characters of a name, media type, scheme, tenant or token. */
  nameChars: 1_024,
  /** Characters of a URL, an extension's URI or a page token. */
  urlChars: 2_048,
  /** Characters of one part's text or base64: above the limit of a request body. */
  contentChars: 16 * 1_048_576,
  /** UTF-8 bytes of a data part or of metadata, as JSON. */
  dataBytes: 1_048_576,
  /** Parts of one message or artifact. */
  parts: 1_000,
  /** Extensions or referenced tasks of one message; output modes of one request. */
  listEntries: 256,
  /** Messages kept per task; the first and the newest stay. */
  historyMessages: 1_000,
  artifacts: 1_000,
  /** Parts in all artifacts of a task together. */
  artifactParts: 10_000,
  /** Entries of each list or map on a remote card. */
  cardEntries: 1_000,
  /** Characters of a description on a remote card. */
  cardTextChars: 65_536,
} as const;

export const PAGE_SIZE = { smallest: 1, usual: 50, largest: 100 } as const;
