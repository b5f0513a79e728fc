import { z } from 'zod';
import { isReceiptState, type ReceiptStep } from './receipt.js';

/** What nodes say to each other about durable messages, as items of their conversation. */
const id = z.string().min(1).max(128);

/** A message to keep: the sender's store, its number there, when it was stored, when it expires, and the envelope. */
export const MailSchema = z.tuple([id, z.int().positive(), z.number(), z.number().nullable(), z.array(z.unknown())]);

const StepSchema = z.tuple([
  id,
  z.custom<ReceiptStep['state']>(isReceiptState),
  z.number(),
  z.string().max(4_096).nullable(),
]);

/** News of receipts. */
export const NewsSchema = z.array(StepSchema).max(1_000);

/** Which of them were heard and kept. */
export const HeardSchema = z.array(z.tuple([id, z.custom<ReceiptStep['state']>(isReceiptState)])).max(1_000);
