import { useEffect, useState } from 'preact/hooks';
import type { Invite } from '../../src/network/peers/network.js';
import { read } from '../api.js';
import { Ago } from '../parts/facts.js';
import { Qr } from '../parts/qr.js';
import { Section } from '../parts/table.js';
import { act, tell } from '../store.js';
import { MESH_TEXT } from '../text/mesh.js';

const TIERS = [0, 1, 2, 3] as const;
const TEXT = MESH_TEXT.invite;

/** Makes an invitation, and shows its code as text and for a camera. */
export function InviteForm() {
  const [tiers, setTiers] = useState<readonly number[]>(TIERS);
  const [sandboxes, setSandboxes] = useState('');
  const [ttlMs, setTtl] = useState<number>(TEXT.validity[0][0]);
  const [mayInvite, setMayInvite] = useState<boolean | undefined>(undefined);
  const [owner, setOwner] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [made, setMade] = useState<Invite | undefined>(undefined);
  const hasOwner = useHasOwner();
  const isFull = tiers.length === TIERS.length && sandboxes.trim() === '';
  const make = async () => {
    if (tiers.length === 0) {
      tell(TEXT.noTier);
      return;
    }
    setBusy(true);
    const names = sandboxes.split(',').flatMap((name) => name.trim() || []);
    const result = await act<Invite>('invite', {
      tiers,
      ttlMs,
      ...(names.length > 0 && { sandboxes: names }),
      ...(mayInvite !== undefined && { mayInvite }),
      ...(hasOwner && owner && { owner }),
    });
    setBusy(false);
    if (result) setMade(result);
  };
  return (
    <Section title={TEXT.title}>
      <p class="dim">{TEXT.about}</p>
      <form
        class="fields"
        aria-label={TEXT.title}
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <fieldset>
          <legend class="dim">{TEXT.tiers}</legend>
          <div class="checks">
            {TIERS.map((tier) => (
              <label key={tier}>
                <input
                  type="checkbox"
                  checked={tiers.includes(tier)}
                  onChange={() =>
                    setTiers(tiers.includes(tier) ? tiers.filter((one) => one !== tier) : [...tiers, tier].sort())
                  }
                />
                L{tier}
              </label>
            ))}
          </div>
        </fieldset>
        <label>
          <span class="dim">{TEXT.sandboxes}</span>
          <input
            value={sandboxes}
            placeholder={TEXT.sandboxesHint}
            maxLength={500}
            onInput={(event) => setSandboxes(event.currentTarget.value)}
          />
        </label>
        <label>
          <span class="dim">{TEXT.valid}</span>
          <select value={ttlMs} onChange={(event) => setTtl(Number(event.currentTarget.value))}>
            {TEXT.validity.map(([ms, name]) => (
              <option key={ms} value={ms}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={mayInvite ?? isFull}
            onChange={(event) => setMayInvite(event.currentTarget.checked)}
          />
          {TEXT.mayInvite}
        </label>
        {hasOwner && (
          <label class="check">
            <input type="checkbox" checked={owner} onChange={(event) => setOwner(event.currentTarget.checked)} />
            {TEXT.owner}
          </label>
        )}
        <button type="submit" class="main" disabled={isBusy}>
          {isBusy ? TEXT.making : TEXT.make}
        </button>
      </form>
      {made && <Made invite={made} hide={() => setMade(undefined)} />}
    </Section>
  );
}

/** Can an invitation make the device one of the owner's? */
function useHasOwner(): boolean {
  const [has, setHas] = useState(false);
  useEffect(() => {
    const ask = async () => {
      const text = JSON.stringify((await read<OpenApi>('openapi.json')).paths['/api/invite'] ?? {});
      setHas(text.includes('"owner"'));
    };
    // Without an answer the form has one choice less.
    ask().catch(() => {});
  }, []);
  return has;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, unknown>>;
}

function Made({ invite: { code, expiresAt, warnings }, hide }: { invite: Invite; hide: () => void }) {
  const copy = async () => {
    await navigator.clipboard.writeText(code);
    tell(TEXT.copied);
  };
  return (
    <div class="invite" role="status">
      <Qr text={code} label={TEXT.qr} />
      <div>
        {warnings.map((warning) => (
          <p key={warning} class="warn">
            <span aria-hidden="true">▲</span> {warning}
          </p>
        ))}
        <p>
          {TEXT.how}{' '}
          <span class="dim">
            {TEXT.expires} <Ago at={expiresAt} />
          </span>
        </p>
        <pre>{TEXT.command(code)}</pre>
        <p class="actions">
          <button type="button" class="main" onClick={() => void copy()}>
            {TEXT.copy}
          </button>
          <button type="button" onClick={hide}>
            {TEXT.close}
          </button>
        </p>
      </div>
    </div>
  );
}
