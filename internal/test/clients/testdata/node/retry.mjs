// Sends one request by each client of a list, which it reads from its input as JSON:
// [{"client": "got", "url": "http://…"}]. The server notes when the clients come back, so
// what they return does not matter. Their own waits are short, where they can be set.
import axios from 'axios';
import axiosRetry from 'axios-retry';
import got from 'got';
import ky from 'ky';
import superagent from 'superagent';
import {Agent, RetryAgent, request} from 'undici';
import {text} from 'node:stream/consumers';
import {get} from './loop.mjs';

const withRetries = axios.create();
axiosRetry(withRetries);

const clients = {
	'got': url => got(url, {retry: {backoffLimit: 50, maxRetryAfter: 10_000}}),
	'axios-retry': url => withRetries.get(url),
	'undici RetryAgent': url => request(url, {dispatcher: new RetryAgent(new Agent(), {minTimeout: 50, maxTimeout: 10_000, timeoutFactor: 1})}),
	'ky': url => ky(url, {retry: {backoffLimit: 50}}),
	'superagent': url => superagent.get(url).retry(2),
	'fetch in a loop': url => get(url),
};

const runs = JSON.parse(await text(process.stdin));
await Promise.all(runs.map(async ({client, url}) => {
	try {
		await clients[client](url);
	} catch {
		// It gave up.
	}
}));
process.exit(0); // without waiting for idle connections
