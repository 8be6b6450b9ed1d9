// What the page is drawn with. All text goes in as text: keys, labels and names may hold anything.

export const $ = (id) => document.getElementById(id);

// el makes an element: attributes, then children, which are elements or texts.
export function el(name, attrs = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attrs)) {
    if (k === 'data') Object.assign(e.dataset, v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c != null && c !== false));
  return e;
}

// text sets a text if it has changed, so that a selection in it stays.
export function text(e, s) { if (e.textContent !== s) e.textContent = s; }

// list makes parent's children those of items. Elements of items that stay are kept, so that focus
// and clicks are not lost each time that data arrives.
export function list(parent, items, keyOf, make, update) {
  const focused = document.activeElement;
  const old = new Map([...parent.children].map((e) => [e.listKey, e]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let e = old.get(key);
    if (e) old.delete(key);
    else { e = make(item); e.listKey = key; }
    update?.(e, item);
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
  }
  for (const e of old.values()) e.remove();
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

// morph makes an element like another one that was drawn anew, and keeps its nodes: a button under the
// pointer or with the focus stays the same button.
export function morph(from, to) {
  for (const { name } of [...from.attributes]) if (name !== 'style' && !to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (name !== 'style' && from.getAttribute(name) !== value) from.setAttribute(name, value);
  if (from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText; // not the attribute, which the policy forbids
  const wanted = [...to.childNodes];
  for (const [i, w] of wanted.entries()) {
    const has = from.childNodes[i];
    if (!has) from.append(w);
    else if (has.nodeName !== w.nodeName) has.replaceWith(w);
    else if (w.nodeType === Node.TEXT_NODE) { if (has.data !== w.data) has.data = w.data; } else morph(has, w);
  }
  while (from.childNodes.length > wanted.length) from.lastChild.remove();
}

// client is the button that explains a client.
export function client(key, label) {
  const at = label ? 0 : key.search(/[:#]/) + 1; // what kind of key it is matters less than whose
  return el('button', { type: 'button', class: 'client', data: { do: 'explain', key } },
    label ? el('span', {}, label) : null, el('span', { class: 'key' }, at ? el('span', { class: 'kind' }, key.slice(0, at)) : null, key.slice(at)));
}

export const number = (n) => n.toLocaleString('en-US');
export const rate = (n) => (n >= 100 ? number(Math.round(n)) : String(n));
export const percent = (x) => (x >= 0.1 || x === 0 ? Math.round(x * 100) : (x * 100).toFixed(1)) + ' %';

// span writes milliseconds for people.
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ' ' + (s % 60) + ' s' : '');
  if (s < 172800) return Math.floor(s / 3600) + ' h' + (Math.floor(s / 60) % 60 ? ' ' + (Math.floor(s / 60) % 60) + ' min' : '');
  return Math.floor(s / 86400) + ' days';
}

// clock is the server's time, of which all ages are.
export const clock = {
  ahead: 0,
  set(at) { this.ahead = Date.parse(at) - Date.now(); },
  now() { return Date.now() + this.ahead; },
};
export function ago(at) {
  const age = clock.now() - Date.parse(at);
  return age < 1500 ? 'just now' : span(age) + ' ago';
}

// say tells what has happened: politely to those who listen, and for some seconds to those who look.
let silence;
export function say(s) {
  text($('status'), s);
  $('status').classList.remove('quiet');
  clearTimeout(silence);
  silence = setTimeout(() => text($('status'), ''), 8000);
}

// tell is say for what those who look see elsewhere on the page.
export function tell(s) {
  say(s);
  $('status').classList.add('quiet');
}
