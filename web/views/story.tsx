import { useSignal } from '@preact/signals';
import type { Story, StoryAgain, StoryEvent } from '../../src/http/dashboard/facts.js';
import { read } from '../api.js';
import { Empty, Stale } from '../parts/empty.js';
import { Ago, Clock, Id, Json, shortAddress } from '../parts/facts.js';
import { go, href } from '../route.js';
import { act, now, tell } from '../store.js';
import { keyOf, useRead } from '../stream.js';
import { markOf, referenceOf, STORY_TEXT, sinceText } from '../text/story.js';
import { span, TEXT } from '../text.js';

/** The story of an id: a column for each agent, time downwards. */
export function StoryView({ rest }: { rest: string }) {
  return (
    <div class="story">
      <Ask key={rest} id={rest} />
      {rest === '' ? <Empty command={STORY_TEXT.noneCommand}>{STORY_TEXT.none}</Empty> : <Told key={rest} id={rest} />}
    </div>
  );
}

function Ask({ id }: { id: string }) {
  const field = useSignal(id);
  return (
    <form
      class="story-ask"
      onSubmit={(event) => {
        event.preventDefault();
        if (field.value.trim() !== '') go('story', field.value.trim());
      }}
    >
      <input
        class="mono"
        aria-label={STORY_TEXT.label}
        value={field.value}
        maxLength={500}
        spellcheck={false}
        onInput={(event) => {
          field.value = event.currentTarget.value;
        }}
      />
      <button type="submit">{STORY_TEXT.show}</button>
    </form>
  );
}

function Told({ id }: { id: string }) {
  const { value: story, error } = useRead<Story>(keyOf('story', { id }));
  if (!story) return <Empty command={STORY_TEXT.inTerminal(id)}>{error ?? STORY_TEXT.loading}</Empty>;
  const { nodes, left } = story;
  const missing = nodes.filter(({ state }) => state === 'missing');
  return (
    <>
      <Stale error={error} />
      <Summary story={story} />
      {missing.map(({ node, name, reason, since }) => (
        <p key={node} class="warn" role="status">
          <span aria-hidden="true">◌</span> {STORY_TEXT.missing(name || node.slice(0, 8), reason ?? '')}
          {since !== null && (
            <>
              {' '}
              ({STORY_TEXT.missingSince} <Ago at={since} />)
            </>
          )}
        </p>
      ))}
      {left > 0 && <p class="dim">{STORY_TEXT.leftOut(left)}</p>}
      <div class="story-body">
        <Lanes story={story} />
        <Beside story={story} />
      </div>
    </>
  );
}

function Summary({ story }: { story: Story }) {
  const { kind, id, title, state, startedAt, endedAt, over } = story;
  return (
    <div class="story-head">
      <h3>{title}</h3>
      <p>
        {kind} <Id id={id} /> <Word word={state} />{' '}
        {startedAt !== null && (
          <span class="dim">
            {STORY_TEXT.began} <Ago at={startedAt} />
            {endedAt !== null && `, ${STORY_TEXT.took(sinceText(endedAt - startedAt).slice(1))}`}
            {endedAt === null && over && `, ${STORY_TEXT.noEnd}`}
          </span>
        )}
      </p>
    </div>
  );
}

function Word({ word }: { word: string }) {
  const [mark, tone] = markOf(word);
  return (
    <strong class={`nowrap ${tone}`}>
      <span aria-hidden="true">{mark}</span> {word}
    </strong>
  );
}

/** Where each agent first and last appears. */
function spansOf({ events, parties, waits }: Story): readonly { first: number; last: number }[] {
  return parties.map((party) => {
    const at = events.flatMap(({ from, to }, index) => (from === party || to === party ? [index] : []));
    return { first: at[0] ?? -1, last: waits?.for === party ? events.length : (at.at(-1) ?? -1) };
  });
}

function Lanes({ story }: { story: Story }) {
  const { events, parties, waits } = story;
  const spans = spansOf(story);
  const lanes = { '--lanes': String(Math.max(1, parties.length)) };
  return (
    <div class="story-lanes" style={lanes}>
      <div class="story-row story-heads">
        <span class="dim">{STORY_TEXT.time}</span>
        <div class="story-cells">
          {parties.map((party) => (
            <span key={party} class="mono" title={party}>
              {shortAddress(party)}
            </span>
          ))}
        </div>
      </div>
      <ol aria-label={STORY_TEXT.events}>
        {events.map((event, at) => (
          // Events are only added, and two may be equal in everything else.
          <Event key={at} event={event} before={events[at - 1]} at={at} story={story} spans={spans} />
        ))}
        {waits && (
          <li class="story-row story-wait">
            <span class="warn">
              <span aria-hidden="true">▲</span>
            </span>
            <div class="story-cells" aria-hidden="true">
              {parties.map((party, lane) => (
                <i
                  key={party}
                  class={party === waits.for || !parties.includes(waits.for) ? 'hatched' : 'lane'}
                  style={{ gridColumn: String(lane + 1) }}
                />
              ))}
            </div>
            <p class="warn">
              {STORY_TEXT.waits(shortAddress(waits.for), waits.reason)}
              {waits.until !== null && <Left until={waits.until} />}
            </p>
          </li>
        )}
      </ol>
      {events.length === 0 && <p class="dim">{STORY_TEXT.noEvents}</p>}
    </div>
  );
}

function Left({ until }: { until: number }) {
  const left = until - now.value;
  return (
    <time dateTime={new Date(until).toISOString()} title={new Date(until).toLocaleString()}>
      , {left > 0 ? STORY_TEXT.left(span(left)) : STORY_TEXT.passed}
    </time>
  );
}

interface EventProps {
  readonly event: StoryEvent;
  readonly before: StoryEvent | undefined;
  readonly at: number;
  readonly story: Story;
  readonly spans: readonly { first: number; last: number }[];
}

function Event({ event, before, at: index, story, spans }: EventProps) {
  const { at, from, to, word, text, code, rule, proof, attempt, link } = event;
  const [, tone] = markOf(word);
  const since = at === null || before === undefined || before.at === null ? undefined : at - before.at;
  return (
    <li class="story-row">
      <span class="story-time">
        {at === null ? <span class="dim">{STORY_TEXT.noTime}</span> : <Clock at={at} />}
        {since !== undefined && <span class="dim mono"> {sinceText(since)}</span>}
      </span>
      <div class="story-cells" aria-hidden="true">
        {story.parties.map((party, lane) => (
          <i
            key={party}
            class={isAlive(spans[lane]!, index) ? 'lane is-alive' : 'lane'}
            style={{ gridColumn: String(lane + 1) }}
          />
        ))}
        <Mark event={event} parties={story.parties} tone={tone} />
      </div>
      <div class="story-text">
        <p>
          <Word word={word} />{' '}
          <span class="story-ends mono">
            {from !== null && shortAddress(from)}
            {to !== null && ` → ${shortAddress(to)}`}
          </span>{' '}
          {attempt !== undefined && <span>{STORY_TEXT.attempt(attempt)} </span>}
          {code !== null && <strong class="bad mono">{code} </strong>}
          {link !== undefined && <Id id={link} />}
        </p>
        {text !== null && text !== rule && <p class="story-said">{text}</p>}
        {rule !== null && <p class="bad">{STORY_TEXT.rule(rule)}</p>}
        {proof !== null && (
          <p class="dim">
            {STORY_TEXT.proof}: {proof.text}
            <NodeName event={event} story={story} />
          </p>
        )}
      </div>
    </li>
  );
}

function NodeName({ event, story }: { event: StoryEvent; story: Story }) {
  if (story.nodes.length < 2) return null;
  const found = story.nodes.find(({ node }) => node === event.node);
  return <> · {found?.name || event.node.slice(0, 8)}</>;
}

function isAlive({ first, last }: { first: number; last: number }, at: number): boolean {
  return first >= 0 && at >= first && at <= last;
}

/** An arrow from the sender's column to the recipient's, or a point in the column where it happened. */
function Mark({
  event: { from, to, word },
  parties,
  tone,
}: {
  event: StoryEvent;
  parties: readonly string[];
  tone: string;
}) {
  const [start, end] = [parties.indexOf(from ?? ''), parties.indexOf(to ?? '')];
  const place = start < 0 ? end : start;
  if (place < 0) return null;
  if (start < 0 || end < 0 || start === end) {
    return <i class={`point ${tone}`} style={{ gridColumn: String(place + 1) }} />;
  }
  const [left, right] = [Math.min(start, end), Math.max(start, end)];
  const style = { gridColumn: `${left + 1} / ${right + 2}`, '--span': String(right - left + 1) };
  return (
    <i
      class={`arrow ${tone} ${end > start ? 'to-right' : 'to-left'}${word === 'refused' ? ' is-stopped' : ''}`}
      style={style}
    />
  );
}

interface Replayed {
  readonly asked: number;
  readonly differences: readonly {
    readonly sender: string;
    readonly recipient: string;
    readonly recorded: string;
    readonly now: string;
  }[];
}

/** Payload, raw JSON, and what can be done about it. */
function Beside({ story }: { story: Story }) {
  const { payload, again, related, kind, id } = story;
  const copy = async () => {
    await navigator.clipboard.writeText(JSON.stringify(story, null, 2));
    tell(STORY_TEXT.copied);
  };
  return (
    <section class="story-beside">
      <div class="actions">
        <button type="button" onClick={() => void copy()}>
          {STORY_TEXT.copy}
        </button>
        {(kind === 'message' || kind === 'thread') && <Replay id={id} />}
        {again && payload && <Again again={again} payload={payload} />}
      </div>
      {payload && (
        <>
          <Json value={payload.text} label={STORY_TEXT.payload} />
          {payload.cut && <p class="warn">{STORY_TEXT.cut(payload.text.length, payload.chars)}</p>}
        </>
      )}
      <Json value={story} label={STORY_TEXT.raw} />
      {related.length > 0 && (
        <>
          <h3>{STORY_TEXT.related}</h3>
          <ul>
            {related.map((one) => (
              <li key={`${one.kind} ${one.id}`}>
                <a class="mono" href={href('story', referenceOf(one.kind, one.id))} title={one.id}>
                  {one.kind} {one.id}
                </a>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Replay({ id }: { id: string }) {
  const answer = useSignal<Replayed | string | undefined>(undefined);
  const ask = async () => {
    try {
      answer.value = await read<Replayed>(keyOf('replay', { id }));
    } catch (error) {
      answer.value = TEXT.failed(String((error as Error).message));
    }
  };
  const found = answer.value;
  return (
    <>
      <button type="button" onClick={() => void ask()}>
        {STORY_TEXT.replay}
      </button>
      <div class="story-answer" role="status">
        {typeof found === 'string' && <p class="bad">{found}</p>}
        {typeof found === 'object' && found.differences.length === 0 && <p>{STORY_TEXT.same(found.asked)}</p>}
        {typeof found === 'object' &&
          found.differences.map(({ sender, recipient, recorded, now: today }) => (
            <p key={`${sender} ${recipient}`} class="warn">
              {STORY_TEXT.differs(shortAddress(sender), shortAddress(recipient), recorded, today)}
            </p>
          ))}
      </div>
    </>
  );
}

/** Sending has effects, so it is asked for twice. */
function Again({ again, payload }: { again: StoryAgain; payload: NonNullable<Story['payload']> }) {
  const asking = useSignal(false);
  const send = async () => {
    asking.value = false;
    const params = { ...again, payload: payload.json ? JSON.parse(payload.text) : payload.text };
    const sent = await act<{ delivered: boolean; stored?: boolean; error?: string }>('send', params);
    if (!sent) return;
    tell(sent.delivered || sent.stored ? STORY_TEXT.sent : STORY_TEXT.refused(sent.error ?? ''));
  };
  if (!asking.value) {
    return (
      <button
        type="button"
        onClick={() => {
          asking.value = true;
        }}
      >
        {STORY_TEXT.again}
      </button>
    );
  }
  return (
    <div class="story-answer">
      <p>{STORY_TEXT.againSure(shortAddress(again.as), shortAddress(again.to))}</p>
      <div class="actions">
        <button type="button" class="main" onClick={() => void send()}>
          {STORY_TEXT.send}
        </button>
        <button
          type="button"
          onClick={() => {
            asking.value = false;
          }}
        >
          {STORY_TEXT.cancel}
        </button>
      </div>
    </div>
  );
}
