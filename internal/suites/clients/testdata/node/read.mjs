// Fetches each URL of a list, which it reads from its input as JSON, and prints what parsers
// read in the headers of the responses.
import {parseRateLimit} from 'ratelimit-header-parser';
import {parseDictionary, parseItem, parseList} from 'structured-headers';
import {text} from 'node:stream/consumers';

// plain makes JSON of an item, [value, parameters], or of a list or dictionary of items.
const plain = value => value instanceof Map ? Object.fromEntries([...value].map(([key, v]) => [key, plain(v)]))
	: Array.isArray(value) ? value.map(plain)
	: value;

// read returns what a parser makes of a field, its error, or nothing without the field.
const read = (parse, field) => {
	if (field === null) return undefined;
	try {
		return plain(parse(field));
	} catch (error) {
		return `${error}`;
	}
};

async function look(url) {
	const response = await fetch(url);
	await response.text();
	const structured = {};
	for (const [name, value] of response.headers) {
		if (!name.includes('ratelimit')) continue;
		const isDictionary = name === 'ratelimit' && value.startsWith('limit=');
		structured[name] = read(isDictionary ? parseDictionary : name === 'ratelimit' || name === 'ratelimit-policy' ? parseList : parseItem, value);
	}
	const before = Date.now();
	const {limit, remaining, used, reset} = parseRateLimit(response.headers) ?? {};
	const after = Date.now();
	return {
		structured,
		parser: {
			limit: `${limit}`, remaining: `${remaining}`, used: `${used}`,
			// The seconds from now that the parser read, or the second since the epoch.
			resetIn: reset && [...Array(100).keys()].find(s => reset - before >= s * 1000 && reset - after <= s * 1000),
			resetAt: reset && reset.getTime() / 1000,
		},
	};
}

const urls = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(await Promise.all(urls.map(look))));
process.exit(0); // without waiting for idle connections
