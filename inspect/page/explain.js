// The answer to: what is with this client?

import { $, ago, el, morph, number, say, tell } from './dom.js';
import { post } from './net.js';

const words = { blocked: ['blocked', 'bad'], denied: ['denied', 'bad'], near: ['near', 'warn'], allowed: ['allowed', 'ok'], unknown: ['nothing used', ''] };
let current; // what is looked up: how often it was asked, which of these answers is shown, and whether the focus waits for one

const chip = (state, shadow) => {
  const [word, kind] = words[state] ?? [state, ''];
  if (shadow && (state === 'denied' || state === 'blocked')) return el('span', { class: 'chip shadow' }, 'would be ' + word);
  return el('span', { class: 'chip ' + kind }, word);
};

export const explain = (query) => look(current = { query, focus: true, asked: 0, answered: 0 });

// refresh asks again what is looked up. It may be answered before the question of the user is: the focus follows either.
export const refresh = () => current && look(current);

async function look(of) {
  const turn = ++of.asked;
  try {
    const answer = await post('explain', { query: of.query });
    if (of !== current || turn < of.answered) return;
    of.answered = turn;
    show(answer, of.focus);
  } catch (e) {
    if (of.focus) say(e.message);
  }
  of.focus = false;
}

// shown is the client that is explained, if it is one.
let shown = '';
export const client = () => shown;

export function close() {
  current = undefined;
  shown = '';
  $('explain').hidden = true;
  $('query').focus();
}

let mayAct = false;
export const setMayAct = (may) => { mayAct = may; };

function show(answer, focus) {
  shown = answer.keys.length === 1 ? answer.keys[0].key : '';
  const panel = $('explain');
  const drawn = panel.cloneNode(false);
  drawn.append(
    el('div', { class: 'row' },
      el('h2', { id: 'explain-title', tabindex: '-1' }, answer.keys.length > 1 ? `${answer.keys.length} clients fit` : 'Explained'),
      el('button', { type: 'button', class: 'small', data: { do: 'close' } }, 'Close')),
    ...answer.keys.map(oneKey));
  drawn.hidden = false;
  morph(panel, drawn);
  if (!focus) return;
  $('explain-title').focus({ preventScroll: true });
  panel.scrollIntoView({ block: 'nearest' });
  tell(answer.keys[0].summary);
}

function oneKey(k) {
  const acts = [];
  if (mayAct && k.state !== 'unknown') {
    if (k.limits.some((l) => !l.kept)) acts.push(button('Reset all limits', 'reset', k.key, ''));
    if (k.limits.some((l) => l.state === 'blocked')) acts.push(button('Unblock', 'unblock', k.key, ''));
  }
  return el('div', { class: 'answer' },
    el('div', { class: 'verdict' },
      k.label ? el('h3', {}, k.label) : null, el('p', { class: 'key' }, k.key),
      el('p', {}, chip(k.state), k.summary)),
    el('ul', { class: 'states' }, ...k.limits.map((l) => oneLimit(k, l))),
    k.unused.length ? el('p', { class: 'note' }, 'Nothing used under: ' + k.unused.join(', ')) : null,
    acts.length ? el('div', { class: 'buttons' }, ...acts) : null);
}

const button = (word, action, key, limit) =>
  el('button', { type: 'button', class: 'small', data: { do: 'ask-' + action, key, limit } }, word);

function oneLimit(k, l) {
  const part = l.burst ? Math.min(100, l.used / l.burst * 100) : 0;
  const known = l.state !== 'unknown';
  const bar = el('div', { class: 'bar' + (known && l.remaining < l.cost ? ' full' : '') + (l.shadow ? ' would' : ''), role: 'img',
    'aria-label': `${number(l.used)} of ${number(l.burst)} used` }, el('i'));
  bar.style.setProperty('--part', part.toFixed(1) + '%');
  const acts = [];
  if (mayAct) {
    if (l.used > 0 && !l.kept) acts.push(button('Reset', 'reset', k.key, l.limit));
    if (l.can_block) acts.push(l.state === 'blocked' ? button('Unblock', 'unblock', k.key, l.limit) : button('Block', 'block', k.key, l.limit));
  }
  return el('li', {},
    el('div', { class: 'card-head' }, el('h3', {}, l.limit), chip(l.state, l.shadow)),
    el('p', { class: 'note' }, [l.numbers, l.algorithm, l.shadow ? 'shadow: not enforced' : ''].filter(Boolean).join(' · ')),
    known ? bar : null,
    el('p', {}, l.why),
    l.kept ? el('p', { class: 'note' }, 'Kept in a book, for bills: it can\'t be reset. To let the client go on, adjust its allowance: quota.Book.Adjust, or weblimit quota adjust.') : null,
    l.minute ? el('p', { class: 'note' }, `Last minute: ${number(l.minute.requests)} requests, ${number(l.minute.denied)} denied` + (l.minute.would_deny ? `, ${number(l.minute.would_deny)} would be denied` : '')) : null,
    l.versions ? el('p', { class: 'note' }, 'By policy ' + l.versions.join(' or ') + (l.versions.length > 1 ? ': instances have different versions' : '')) : null,
    l.last_denial ? el('p', { class: 'note' }, `${l.last_denial.shadow ? 'Would last have been denied' : 'Last denied'} ${ago(l.last_denial.at)}: ${l.last_denial.why}${l.last_denial.version ? ` By policy ${l.last_denial.version}.` : ''}`) : null,
    acts.length ? el('div', { class: 'buttons' }, ...acts) : null);
}
