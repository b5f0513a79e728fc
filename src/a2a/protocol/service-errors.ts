import { EclipticError, type ErrorCode } from '../../runtime/errors.js';

/** The kinds of errors that the task interface tells apart by class. */

/** Something that was asked for is not there: "Agent with default project". */
export class NotFoundError extends EclipticError {
  constructor(what: string, details: Record<string, unknown> = {}) {
    super('AGENT_NOT_FOUND', `${what} not found`, details);
    this.name = 'NotFoundError';
  }
}

/** What was given does not have the fields that it must have; `details` names them. */
export class ValidationError extends EclipticError {
  constructor(
    message: string,
    details: Record<string, unknown> = {},
    code: Extract<ErrorCode, 'INVALID_CARD' | 'INVALID_PARAMS'> = 'INVALID_PARAMS',
  ) {
    super(code, message, details);
    this.name = 'ValidationError';
  }
}

/** Another service answered, and not with what was asked for; `details.status` is its HTTP status, if that says so. */
export class ExternalServiceError extends EclipticError {
  constructor(message: string, details: Record<string, unknown> = {}, code: ErrorCode = 'REMOTE_FAILED') {
    super(code, message, details);
    this.name = 'ExternalServiceError';
  }

  get status(): number | undefined {
    const { status } = this.details;
    return typeof status === 'number' ? status : undefined;
  }
}
