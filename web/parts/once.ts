import { useEffect, useState } from 'preact/hooks';
import { read } from '../api.js';
import type { Read } from '../stream.js';

/** Reads once, where following would cost the node too much: a search goes through the whole journal. */
export function useOnce<T>(key: string): Read<T> {
  const [state, setState] = useState<Read<T> & { readonly key: string }>();
  useEffect(() => {
    let isWanted = true;
    read<T>(key).then(
      (value) => isWanted && setState({ key, value, error: undefined }),
      (error: Error) => isWanted && setState({ key, value: undefined, error: error.message }),
    );
    return () => {
      isWanted = false;
    };
  }, [key]);
  return state?.key === key ? state : { value: undefined, error: undefined };
}
