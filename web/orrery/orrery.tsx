import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { go } from '../route.js';
import { messages, sampled } from '../store.js';
import { OVERVIEW_TEXT } from '../text/overview.js';
import type { Body } from './layout.js';
import { Scene, type SceneText } from './scene.js';
import type { Sky } from './sky.js';

const { collapsed: counts, title, flow: rate, flowWithin: rateWithin } = OVERVIEW_TEXT;
const TEXT: SceneText = { counts, title, rate, rateWithin };

/** The agents of all nodes as bodies on orbits, and their messages as light between them. */
export function Orrery({ sky, label }: { sky: Sky; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<Scene | undefined>(undefined);
  const [tip, setTip] = useState<Body | undefined>(undefined);
  const [isOpened, setOpened] = useState(false);
  useLayoutEffect(() => {
    const made = new Scene(canvas.current!, TEXT);
    scene.current = made;
    // Not by rendering: messages must not render the page.
    const stop = messages.subscribe((lines) => made.take(lines ?? [], sampled.peek()?.total));
    return () => {
      stop();
      made.end();
    };
  }, []);
  // Before the canvas can have the focus: a key that comes earlier would find no agents.
  useLayoutEffect(() => scene.current?.show(sky), [sky]);
  const at = (event: MouseEvent) => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    return scene.current?.hover(event.clientX - left, event.clientY - top);
  };
  const choose = (body: Body | undefined) => {
    if (!body) return;
    if (body.star) go('agents', body.star.address);
    else {
      setTip(undefined);
      scene.current?.open(body.id.slice('node:'.length));
      setOpened(true);
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter') choose(scene.current?.body(scene.current.selected));
    else if (event.key === 'Escape') {
      scene.current?.deselect();
      setTip(undefined);
    } else {
      const next = scene.current?.move(event.key);
      if (!next) return;
      setTip(next);
    }
    event.preventDefault();
  };
  return (
    <div class="orrery">
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        tabIndex={0}
        onMouseMove={(event) => setTip(at(event))}
        onMouseLeave={() => {
          scene.current?.leave();
          setTip(undefined);
        }}
        onClick={(event) => choose(at(event))}
        onKeyDown={onKey}
        onBlur={() => setTip(undefined)}
      />
      {isOpened && (
        <button
          type="button"
          class="collapse"
          onClick={() => {
            scene.current?.collapse();
            setOpened(false);
          }}
        >
          {OVERVIEW_TEXT.collapse}
        </button>
      )}
      <div role="status">{tip && <Tip body={tip} />}</div>
    </div>
  );
}

function Tip({ body }: { body: Body }) {
  const box = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => {
    const element = box.current!;
    const { clientWidth, clientHeight } = element.parentElement!.parentElement!;
    const left = Math.max(4, Math.min(clientWidth - element.offsetWidth - 4, body.x + body.r + 12));
    const top = Math.max(4, Math.min(clientHeight - element.offsetHeight - 4, body.y + body.r + 12));
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  });
  const { star } = body;
  return (
    <p class="tip" ref={box}>
      <strong class="mono">{star?.name ?? body.text}</strong>
      {(star ? facts(star) : [OVERVIEW_TEXT.collapsedHow]).map((fact) => (
        <span key={fact}>{fact}</span>
      ))}
    </p>
  );
}

function facts(star: NonNullable<Body['star']>): string[] {
  const { tier, state, queued, working, sandbox, leases, workers } = star;
  return [
    `${OVERVIEW_TEXT.tier(tier)}, ${state}, ${OVERVIEW_TEXT.load(queued, working)}`,
    ...workers.map(({ id, type, state: health }) => `${type} ${id}: ${health}`),
    ...(sandbox === null ? [] : [OVERVIEW_TEXT.sandbox(sandbox)]),
    ...leases,
  ];
}
