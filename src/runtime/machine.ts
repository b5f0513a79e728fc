/**
 * A decision of a pure machine: the state that follows, and the effects to perform once that state is stored. Inputs and
 * effects are unions with the discriminant `type`. A machine reads no clock and performs nothing; its shell decides,
 * stores the state if it must survive a restart, publishes it, and then performs the effects, in this order.
 */
export interface Step<State, Effect> {
  readonly state: State;
  readonly effects: readonly Effect[];
}
