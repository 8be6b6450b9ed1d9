// Sends one request by each client of a list, which it reads from its input as JSON:
// [{"client": "got", "url": "http://…"}]. The server notes when the clients come back, so
// what they return does not matter. Their own waits are short, where they can be set.
import {text} from 'node:stream/consumers';

// Each makes a client, which is a function of a URL. It imports no others.
const clients = {
	'got': async () => {
		const {default: got} = await import('got');
		return url => got(url, {retry: {backoffLimit: 50, maxRetryAfter: 10_000}});
	},
	'axios-retry': async () => {
		const [{default: axios}, {default: axiosRetry}] = await Promise.all([import('axios'), import('axios-retry')]);
		axiosRetry(axios);
		return url => axios.get(url);
	},
	'undici RetryAgent': async () => {
		const {Agent, RetryAgent, request} = await import('undici');
		const agent = new Agent({connect: {rejectUnauthorized: false}, allowH2: true});
		const dispatcher = new RetryAgent(agent, {minTimeout: 50, maxTimeout: 3000, timeoutFactor: 1, maxRetries: 1});
		return url => request(url, {dispatcher});
	},
	'ky': async () => {
		const {default: ky} = await import('ky');
		return url => ky(url, {retry: {limit: 1, backoffLimit: 50, maxRetryAfter: 3000}, timeout: false});
	},
	'superagent': async () => {
		const {default: superagent} = await import('superagent');
		return url => superagent.get(url).retry(2);
	},
	'fetch in a loop': async () => (await import('./loop.mjs')).get,
};

const runs = JSON.parse(await text(process.stdin));
const made = {};
for (const {client} of runs) made[client] ??= await clients[client]();
await Promise.all(runs.map(async ({client, url}) => {
	try {
		await made[client](url);
	} catch {
		// It gave up.
	}
}));
process.exit(0); // without waiting for idle connections
