import { useEffect, useState } from 'preact/hooks';
import { connection, read } from '../api.js';
import type { Read } from '../stream.js';

/** Reads once, where following would cost the node too much: a search goes through the whole journal. */
export function useOnce<T>(key: string): Read<T> {
  const [state, setState] = useState<Read<T> & { readonly key: string }>();
  const isBroken = connection.value === 'broken';
  useEffect(() => {
    if (isBroken) return;
    let isWanted = true;
    read<T>(key).then(
      (value) => isWanted && setState({ key, value, error: undefined }),
      (error: Error) => {
        if (!isWanted) return;
        setState((before) => ({ key, value: before?.key === key ? before.value : undefined, error: error.message }));
      },
    );
    return () => {
      isWanted = false;
    };
  }, [key, isBroken]);
  return state?.key === key ? state : { value: undefined, error: undefined };
}
