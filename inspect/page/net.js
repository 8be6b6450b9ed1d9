// The API, and what is live: server-sent events, or polling where they can't be had.

async function answerOf(response) {
  if (response.ok) return response.json();
  let detail = `The server answered ${response.status}.`;
  try { detail = (await response.json()).detail || detail; } catch { /* not ours: a proxy's page */ }
  throw Object.assign(new Error(detail), { status: response.status });
}

export const get = async (path) => answerOf(await fetch('api/v1/' + path, { cache: 'no-store' }));

export const post = async (path, body) => answerOf(await fetch('api/v1/' + path, {
  method: 'POST', body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json', 'Weblimit-Inspect': '1' },
}));

const pollEvery = 5000, streamAgain = 60000;

// live calls onData with each overview, and onState with "live", "polling" or an error. A page that
// nobody sees asks for nothing.
export function live(onData, onState) {
  let source, timer, retry;
  const stop = () => { source?.close(); source = undefined; clearTimeout(timer); clearTimeout(retry); };
  const poll = async () => {
    clearTimeout(timer);
    try { onData(await get('overview')); onState('polling'); } catch (e) { onState(e.status === 401 || e.status === 403 ? 'ended' : 'lost', e.message); }
    if (!document.hidden) timer = setTimeout(poll, pollEvery);
  };
  const start = () => {
    stop();
    source = new EventSource('api/v1/stream');
    source.addEventListener('overview', (e) => { onData(JSON.parse(e.data)); onState('live'); });
    source.onerror = () => {
      if (source?.readyState !== EventSource.CLOSED) return; // it connects again by itself
      stop();
      poll();
      retry = setTimeout(start, streamAgain);
    };
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? stop() : start()));
  start();
}
