import { EclipticError } from '../../runtime/errors.js';
import { isCredentialRef, type SecretSetting, type SecretSettings } from '../../system/secrets/credential-source.js';

type Environment = Readonly<Record<string, string | undefined>>;
type Setting = string | number | boolean;

const VARIABLE = /\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/** Puts what the environment says in the place of `${VAR}`, and remembers what was put there: it may be secret. */
export class Variables {
  readonly secrets = new Set<string>();
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  expand(value: Setting): string {
    return String(value).replace(VARIABLE, (_, variable: string, otherwise: string | undefined) => {
      const found = this.#env[variable] || otherwise;
      if (found === undefined) {
        throw new EclipticError('INVALID_CONFIG', `the environment has no ${variable}`, { variable });
      }
      this.secrets.add(found);
      return found;
    });
  }

  /** The same for settings, some of which may be credentials. */
  expandAll(settings: Readonly<Record<string, Setting | SecretSetting>> = {}): SecretSettings {
    return Object.fromEntries(
      Object.entries(settings).map(([key, value]) => [key, isCredentialRef(value) ? value : this.expand(value)]),
    );
  }
}
