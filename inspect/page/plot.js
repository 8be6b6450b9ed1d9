// A plot of two minutes, a bar for each second: denied from the ground up, allowed above it.

const svg = (name, attrs) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  return e;
};
const width = 240, height = 56, seconds = 120, step = width / seconds;

export function plot() {
  const figure = document.createElement('figure');
  figure.className = 'plot';
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' });
  for (const name of ['allowed', 'would', 'denied']) root.append(svg('path', { class: name, d: '' }));
  figure.append(root, document.createElement('figcaption'));
  return figure;
}

// hatch is the pattern of what would be denied, once for the page: not color alone tells it apart.
export function hatch() {
  const root = svg('svg', { width: 0, height: 0, 'aria-hidden': 'true', class: 'quiet' });
  const pattern = svg('pattern', { id: 'hatch', width: 4, height: 4, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' });
  pattern.append(svg('path', { d: 'M0 0V4M2 0V4' }));
  root.append(pattern);
  document.body.append(root);
}

export function draw(figure, name, s, now) {
  const [root, caption] = figure.children;
  const d = { allowed: '', would: '', denied: '' };
  let most = 0;
  const n = s ? s.allowed.length : 0;
  for (let i = 0; i < n; i++) most = Math.max(most, s.allowed[i] + s.denied[i] + s.would_deny[i]);
  // The right edge is now: what has not arrived yet is left empty, and not drawn as silence.
  const first = s ? seconds - Math.round((now - Date.parse(s.start)) / s.step_ms) : 0;
  for (let i = 0; i < n; i++) {
    const x = (first + i) * step;
    if (x < 0 || x >= width) continue;
    let y = height;
    for (const [kind, count] of [['denied', s.denied[i]], ['would', s.would_deny[i]], ['allowed', s.allowed[i]]]) {
      if (!count) continue;
      // One denial among thousands of requests is still seen.
      const h = Math.max(count / most * (height - 8), kind === 'allowed' ? 1 : 2.5);
      y -= h;
      d[kind] += `M${x.toFixed(2)} ${y.toFixed(2)}h${step}v${h.toFixed(2)}h-${step}z`;
    }
  }
  for (const path of root.children) path.setAttribute('d', d[path.getAttribute('class')]);
  caption.textContent = most ? `2 min, peak ${most}/s` : 'no requests in 2 min';
  root.setAttribute('aria-label', `${name}, last two minutes: ` + (most ? `at most ${most} requests per second` : 'no requests'));
}
