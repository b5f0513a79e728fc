import { EclipticError, isErrorCode, toEclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Link, LinkListener } from '../links/link.js';
import type { Chain, Grant } from '../membership/certificate.js';
import { inviteId, isInviteProof, proveInvite } from '../membership/invite.js';
import type { Membership } from '../membership/membership.js';
import {
  decodeFrame,
  encodeFrame,
  FRAME,
  type Frame,
  type Hello,
  HelloSchema,
  JoinSchema,
  malformed,
  OpeningSchema,
  PROTOCOL,
  parsed,
  RefusedSchema,
  WelcomeSchema,
} from './wire.js';

type Introduction = Pick<Hello, 'software' | 'session' | 'knows' | 'instance' | 'announced'> & {
  readonly addresses: readonly string[];
};

interface GreetingComponents {
  runtime: Runtime;
  membership: Membership;
  /** This node's session ids, addresses and so on, for a `hello`. */
  introduce: () => Introduction;
  /** What people call this node. */
  name: string;
  limitMs: number;
}

/** The code of a `refused` frame that is no refusal: the greeting was late. */
const LATE = 'PEER_UNREACHABLE';
/** Over an unreliable link, the caller repeats a frame that has no answer after this time. */
const REPEAT_MS = 500;

/** The invite that this node is joining with. */
export interface Joining {
  readonly secret: Uint8Array;
  readonly addresses: readonly string[];
  joined(): void;
  refused(error: EclipticError): void;
}

/** The end of a greeting: exactly one of these is called. */
export interface GreetingOutcome {
  /** The other node is a member. Returns the listener for its further frames. */
  admitted(hello: Hello, chain: Chain, grant: Grant): LinkListener;
  /** There is no common protocol version. */
  incompatible(reason: string): void;
  /** The other node's proof does not hold, or it sent no greeting. */
  refused(error: EclipticError): void;
  /** This node was refused, or the link ended first. */
  ended(error: EclipticError): void;
  /** The greeting took too long on either side, which is no refusal: another attempt may succeed. */
  late(error: EclipticError): void;
}

/**
 * The handshake over a new link. The caller shows its certificate or invite; the called node answers only if that
 * holds, so a stranger learns nothing. A greeting that is done replaces itself as the listener of its link.
 */
export class Greeting implements LinkListener {
  readonly #components: GreetingComponents;
  readonly #link: Link;
  readonly #outcome: GreetingOutcome;
  readonly #joining: Joining | undefined;
  readonly #timer: Timer;
  #repeat: Timer | undefined;
  /** The called node's hello. */
  #answer: Uint8Array | undefined;
  #awaits: 'welcome' | 'hello' | 'opening' = 'opening';
  #over = false;

  constructor(components: GreetingComponents, link: Link, outcome: GreetingOutcome, joining?: Joining) {
    this.#components = components;
    this.#link = link;
    this.#outcome = outcome;
    this.#joining = joining;
    this.#timer = components.runtime.setTimer(() => this.#expire(), components.limitMs);
    if (link.initiator) this.#open();
    link.listen(this);
  }

  onFrame(bytes: Uint8Array): void {
    if (this.#over) return;
    try {
      this.#take(decodeFrame(bytes), bytes);
    } catch (error) {
      this.#refuse(toEclipticError(error, 'INVALID_FRAME'));
    }
  }

  onDrain(): void {}

  onClose(reason: string, tampered: boolean): void {
    if (tampered) this.#refuse(new EclipticError('INVALID_FRAME', reason));
    else this.#end(new EclipticError('PEER_UNREACHABLE', `the link ended during the greeting: ${reason}`));
  }

  #open(): void {
    const { membership } = this.#components;
    if (this.#joining && !membership.joined) {
      const { secret } = this.#joining;
      const proof = proveInvite(secret, 'guest', this.#link.handshake);
      const { name, introduce } = this.#components;
      const { software } = introduce();
      this.#ask(FRAME.join, { protocol: PROTOCOL, software, invite: inviteId(secret), proof, name });
      this.#awaits = 'welcome';
    } else this.#callerHello();
  }

  #callerHello(): void {
    this.#ask(FRAME.hello, this.#hello());
    this.#awaits = 'hello';
  }

  #hello(): object {
    const { membership, runtime, introduce } = this.#components;
    const about = introduce();
    const proof = membership.prove(this.#handshake);
    return { protocol: PROTOCOL, ...about, time: runtime.now(), chain: membership.chain, proof };
  }

  #take([kind, body]: Frame, bytes: Uint8Array): void {
    const opens = kind === FRAME.hello || kind === FRAME.join || kind === FRAME.incompatible;
    if (opens && !this.#understands(body)) return;
    if (kind === FRAME.refused && this.#awaits !== 'opening') this.#refusedByOther(body);
    else if (kind === FRAME.join && this.#awaits === 'opening') this.#admitGuest(body);
    else if (kind === FRAME.welcome && this.#awaits === 'welcome') this.#becomeMember(body);
    else if (kind === FRAME.hello && this.#awaits !== 'welcome') this.#meet(body, bytes);
    // On an unreliable link, later frames may overtake the greeting; they will be sent again.
    else if (this.#link.reliable) throw malformed(`"${kind.slice(0, 20)}" does not belong here`);
  }

  #meet(body: unknown, bytes: Uint8Array): void {
    const hello = parsed(HelloSchema, body);
    const { membership } = this.#components;
    const { chain, grant } = membership.checkPeer(hello.chain, hello.proof, this.#handshake);
    this.#over = true;
    this.#cancelTimers();
    const listener = this.#outcome.admitted(hello, chain, grant);
    if (this.#link.initiator) {
      this.#link.listen(listener);
      return;
    }
    this.#link.listen(this.#link.reliable ? listener : this.#answering(bytes, listener));
    // The called node's hello says whether the conversation is resumed, so it goes out before any item.
    this.#answer = encodeFrame([FRAME.hello, this.#hello()]);
    this.#link.send(this.#answer);
  }

  /** The answer to a hello may get lost too, so a repeated hello gets the same answer for as long as the link lives. */
  #answering(asked: Uint8Array, next: LinkListener): LinkListener {
    return {
      onFrame: (bytes) => {
        if (this.#answer && Buffer.compare(bytes, asked) === 0) this.#link.send(this.#answer);
        else next.onFrame(bytes);
      },
      onDrain: () => next.onDrain(),
      onClose: (reason, tampered) => next.onClose(reason, tampered),
    };
  }

  #admitGuest(body: unknown): void {
    const { invite, proof: given, name } = parsed(JoinSchema, body);
    const { welcome, proof } = this.#components.membership.admit(invite, given, name, this.#handshake);
    this.#say(FRAME.welcome, { proof, ...welcome });
  }

  #becomeMember(body: unknown): void {
    const { proof, ...welcome } = parsed(WelcomeSchema, body);
    const { secret, addresses, joined } = this.#joining!;
    if (!isInviteProof(secret, 'host', this.#link.handshake, proof)) {
      throw new EclipticError('INVALID_INVITE', 'the node that answered does not know the invite');
    }
    const { membership } = this.#components;
    // Another link to the inviter may have been faster.
    if (!membership.joined || membership.mesh !== welcome.mesh) {
      membership.adopt(welcome, addresses);
      joined();
    }
    this.#callerHello();
  }

  /** Do both sides speak a common version? If not, both are told, and neither reports the other. */
  #understands(body: unknown): boolean {
    const { protocol, software } = parsed(OpeningSchema, body);
    if (protocol.min <= PROTOCOL.max && protocol.max >= PROTOCOL.min) return true;
    const { introduce } = this.#components;
    const ours = introduce().software;
    if (!this.#over) this.#say(FRAME.incompatible, { protocol: PROTOCOL, software: ours });
    if (this.#awaits === 'welcome')
      this.#joining?.refused(
        new EclipticError('PROTOCOL_MISMATCH', 'the inviting node speaks another version of the protocol'),
      );
    const reason = `it runs ${software}, which speaks protocol ${protocol.min} to ${protocol.max}; this node runs ${ours}, which speaks ${PROTOCOL.min} to ${PROTOCOL.max}`;
    this.#finish(() => this.#outcome.incompatible(reason));
    return false;
  }

  #refusedByOther(body: unknown): void {
    const { code, reason } = parsed(RefusedSchema, body);
    const error = new EclipticError(isErrorCode(code) ? code : 'MEMBERSHIP_REFUSED', reason);
    if (code === LATE) {
      this.#finish(() => this.#outcome.late(error));
      return;
    }
    if (this.#awaits === 'welcome') this.#joining?.refused(error);
    this.#end(error);
  }

  #refuse(error: EclipticError): void {
    if (this.#over) return;
    const { code, message: reason } = error;
    if (!this.#link.initiator) this.#say(FRAME.refused, { code, reason });
    if (this.#awaits === 'welcome') this.#joining?.refused(error);
    this.#finish(() => this.#outcome.refused(error));
  }

  /** In a busy process, the timer may fire before frames that have already arrived are read; they still count. */
  #expire(): void {
    this.#components.runtime.defer(() => this.#late());
  }

  #late(): void {
    if (this.#over) return;
    const error = new EclipticError(LATE, 'the other side did not introduce itself in time');
    if (!this.#link.initiator) this.#say(FRAME.refused, { code: error.code, reason: error.message });
    this.#finish(() => this.#outcome.late(error));
  }

  #end(error: EclipticError): void {
    if (!this.#over) this.#finish(() => this.#outcome.ended(error));
  }

  #finish(tell: () => void): void {
    this.#over = true;
    this.#cancelTimers();
    this.#link.close();
    tell();
  }

  #cancelTimers(): void {
    this.#timer.cancel();
    this.#repeat?.cancel();
  }

  #say(kind: string, body: object): void {
    this.#link.send(encodeFrame([kind, body]));
  }

  /**
   * Sends a frame that the other side answers. An unreliable link may lose it or its answer, which must not cost the whole
   * greeting, so the same frame is sent again until the answer comes.
   */
  #ask(kind: string, body: object): void {
    this.#repeat?.cancel();
    const frame = encodeFrame([kind, body]);
    const send = () => {
      if (!this.#link.reliable) this.#repeat = this.#components.runtime.setTimer(send, REPEAT_MS);
      this.#link.send(frame);
    };
    send();
  }

  get #handshake() {
    const { handshake: hash, initiator, remoteKey } = this.#link;
    return { hash, initiator, remoteKey };
  }
}
