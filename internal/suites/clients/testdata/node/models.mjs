// Calls a gateway of language models by the library of a provider, and prints what it makes of it as JSON:
//
//	node models.mjs openai http://127.0.0.1:8080
//
// internal/suites/models says what each part is.
const [provider, url] = process.argv.slice(2);

let tries = 0;
const counted = (...of) => {
	tries++;
	return fetch(...of);
};

// Each returns ask, which returns the header for the tokens that are left, and stream, which returns text and tokens.
const libraries = {
	openai: async () => {
		const {default: OpenAI} = await import('openai');
		const client = new OpenAI({baseURL: `${url}/v1`, apiKey: 'demo', fetch: counted});
		const params = (text, most) => ({model: most ? 'gpt-4o-mini' : 'gpt-4o', messages: [{role: 'user', content: text}], ...(most > 0 && {max_tokens: most})});
		return {
			ask: async (text, most) => {
				const {response} = await client.chat.completions.create(params(text, most)).withResponse();
				return response.headers.get('x-ratelimit-remaining-tokens');
			},
			stream: async (text, most) => {
				let said = '', used = 0;
				for await (const chunk of await client.chat.completions.create({...params(text, most), stream: true})) {
					said += chunk.choices[0]?.delta?.content ?? '';
					used = chunk.usage?.total_tokens ?? used;
				}
				return {said, used};
			},
		};
	},
	anthropic: async () => {
		const {default: Anthropic} = await import('@anthropic-ai/sdk');
		const client = new Anthropic({baseURL: url, apiKey: 'demo', fetch: counted});
		const params = (text, most) => ({model: most ? 'claude-haiku-4-5' : 'claude-sonnet-4-5', max_tokens: most || 1_000_000, messages: [{role: 'user', content: text}]});
		return {
			ask: async (text, most) => {
				const {response} = await client.messages.create(params(text, most), {timeout: 60_000}).withResponse();
				return response.headers.get('anthropic-ratelimit-tokens-remaining');
			},
			stream: async (text, most) => {
				let said = '', input = 0, output = 0;
				for await (const event of await client.messages.create({...params(text, most), stream: true})) {
					if (event.type === 'message_start') input = event.message.usage.input_tokens;
					if (event.type === 'content_block_delta') said += event.delta.text;
					if (event.type === 'message_delta') output = event.usage.output_tokens;
				}
				return {said, used: input + output};
			},
		};
	},
};

const {ask, stream} = await libraries[provider]();
const failure = async call => {
	try {
		await call();
	} catch (err) {
		return err;
	}
	throw new Error('it did not fail');
};
const {said: text, used} = await stream('Why is the sky blue?', 100);
const left = await ask('why', 1);

tries = 0;
const never = await failure(() => ask('why '.repeat(12_000), 1));
const hopeless = tries;

await ask('why '.repeat(3900), 4000);
await ask('why '.repeat(3900), 4000);
let n = 0;
for (let since = Date.now(); n <= 4000 && Date.now() - since < 30_000;) n = Number(await ask('why', 1));
tries = 0;
await ask('why '.repeat(Math.floor((n + 900 - 4000) / 2)), 4000);
const waited = tries;

const cut = await failure(() => stream('why '.repeat(5000), 0));
console.log(JSON.stringify({
	text, used, left, tries: waited, hopeless, status: never.status, code: never.code ?? JSON.stringify(never.error), cut: `${cut.message} ${cut.code ?? ''}`,
}));
process.exit(0); // without waiting for idle connections
