import { collectionVerbs } from './collection.js';

export const verbs = collectionVerbs('taste', ['short sentences, no exclamation marks', 'wording']);
