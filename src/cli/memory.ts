import { collectionVerbs } from './collection.js';

export const verbs = collectionVerbs('memory', ['deploys wait for CI on Fridays', 'deploy friday']);
