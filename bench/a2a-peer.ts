import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AGENT_CARD_PATH, type AgentCard } from '@a2a-js/sdk';
import { createNode } from 'ecliptic';
