import { collectionVerbs } from './collection.js';

export const verbs = collectionVerbs('rules', ['every change has a test', 'tests']);
