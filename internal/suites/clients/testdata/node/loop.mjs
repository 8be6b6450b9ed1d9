// get asks again while it is limited, and waits as long as the server says.
export async function get(url, options = {}) {
	for (let tries = 1; ; tries++) {
		const response = await fetch(url, options);
		const seconds = Number(response.headers.get('Retry-After') ?? NaN);
		const limited = response.status === 429 || response.status === 503;
		if (!limited || Number.isNaN(seconds) || seconds > 60 || tries === 5) {
			return response; // without Retry-After, waiting can't help
		}
		await response.body?.cancel();
		const jitter = Math.random(); // it only adds: a request that is early is denied
		await new Promise(resolve => setTimeout(resolve, (seconds + jitter) * 1000));
	}
}
