import { $, ago, client, clock, el, list, number, percent, rate, span, tell, text } from './dom.js';
import { draw, hatch, plot } from './plot.js';
import { get, live } from './net.js';
import * as explainer from './explain.js';
import * as actions from './actions.js';

let last = 0; // when data came, by this machine's clock
let mayAct = false, before; // what was said of denials and of the store

function show(o) {
  last = Date.now();
  clock.set(o.at);
  mayAct = o.may_act;
  explainer.setMayAct(mayAct);
  actions.setLimits(o.limits, o.max_block_seconds);
  text($('actor'), `${o.actor}${mayAct ? '' : ' (read only)'}`);
  showDenied(o);
  showLimits(o);
  showNear(o);
  showStore(o);
  showRegions(o.regions ?? []);
  showInstances(o);
  for (const e of document.querySelectorAll('button.act')) e.hidden = !mayAct || !actions.canBlock();
}

function showDenied(o) {
  const now = o.denied.filter((c) => c.minute.denied > 0);
  const total = o.limits.reduce((sum, l) => sum + l.minute.denied, 0);
  const would = o.would_deny.filter((c) => c.minute.would_deny > 0).length;
  const some = now.length >= 20 ? '20 clients or more' : now.length === 1 ? '1 client' : `${now.length} clients`;
  const hot = now.length > 0 || total > 0;
  const line = hot ? `${now.length ? some : 'Requests without a key'} denied in the last minute` : 'Nobody was denied in the last minute';
  text($('headline'), line);
  $('headline').className = 'headline ' + (hot ? 'hot' : 'calm');
  text($('subline'), [total ? `${number(total)} ${total === 1 ? 'request' : 'requests'} denied.` : '', would ? `${would === 1 ? '1 client' : would >= 20 ? '20 clients or more' : would + ' clients'} would be denied by limits in shadow mode.` : ''].filter(Boolean).join(' '));
  document.title = now.length ? `(${now.length} denied) Limits` : 'Limits';
  announce(hot ? 'denied' : 'calm', o.store.state, line);
  ranking($('denied-list'), o.denied, 'denied');
  ranking($('would-list'), o.would_deny.slice(0, 8), 'would_deny');
  $('would').hidden = o.would_deny.length === 0;
}

// ranking shows clients in a table, by how often they were denied, or would have been.
function ranking(box, clients, kind) {
  box.hidden = clients.length === 0;
  list(box.querySelector('tbody'), clients, (c) => c.limit + ' ' + c.key, (c) => el('tr', {},
    el('td', {}, client(c.key, c.label), el('p', { class: 'below' }, el('b', {}, c.limit), el('span'))), el('td', { class: 'limit' }, c.limit),
    el('td', { class: 'number' }, el('b'), el('small')), el('td', { class: 'why' }), el('td', { class: 'last' })),
  (row, c) => {
    row.className = !c.minute[kind] ? 'past' : kind === 'would_deny' ? 'would' : '';
    const [who, , count, why, when] = row.children;
    text(count.firstChild, number(c.minute[kind]));
    text(count.lastChild, c.minute[kind] ? `of ${number(c.minute.requests)}` : `${number(c.hour[kind])} in the hour`);
    const reason = c.denial ? c.denial.why : 'Not known', age = c.denial ? ago(c.denial.at) : '';
    text(who.querySelector('.below').lastChild, ` · ${age} · ${reason}`);
    text(why, reason);
    text(when, age);
  });
}

// announce says what has changed, and not each number that arrives.
function announce(denials, store, line) {
  const now = denials + store;
  if (before !== undefined && before !== now) tell(store === 'ok' ? line : `Store: ${store}. ${line}`);
  before = now;
}

function showLimits(o) {
  const now = clock.now();
  list($('limits').querySelector('.cards'), o.limits, (l) => l.name, (l) => el('li', {},
    el('div', { class: 'card-head' }, el('h3', {}, l.name), el('span', { class: 'chip' })),
    plot(), el('p', { class: 'rates' }, el('span', {}, el('b'), '/s allowed'), el('span', { class: 'd' }, el('b'), '/s denied', el('small')), el('span', { class: 'w' }, el('b'), '/s would be denied')),
    el('p', { class: 'note' }), el('p', { class: 'note' }), busiest(l.name)),
  (card, l) => {
    const [head, figure, rates, numbers, suggest] = card.children;
    card.className = l.minute.denied ? 'hot' : '';
    const chip = head.lastChild;
    chip.className = 'chip' + (l.shadow ? ' shadow' : l.minute.denied ? ' bad' : '');
    text(chip, l.shadow ? 'shadow' : l.minute.denied ? `${percent(l.minute.denied / l.minute.requests)} denied` : '');
    chip.hidden = !chip.textContent;
    draw(figure, l.name, l.seconds, now);
    const [a, d, w] = rates.children;
    text(a.firstChild, rate(l.per_second.allowed));
    text(d.firstChild, rate(l.per_second.denied));
    text(w.firstChild, rate(l.per_second.would_deny));
    d.hidden = l.shadow;
    w.hidden = !l.shadow;
    text(numbers, [l.numbers, l.algorithm, l.keys ? 'by ' + l.keys : '', l.here ? '' : 'not of this process'].filter(Boolean).join(' · '));
    suggest.hidden = !(l.suggest?.clients >= 20);
    if (!suggest.hidden) text(suggest, `${l.suggest.share * 100} % of ${number(l.suggest.clients)} clients stay within ${number(l.suggest.quota)} per ${l.window}; ${+(l.suggest.within * 100).toFixed(1)} % stay within the present ${number(l.quota)}`);
  });
  $('more-limits').hidden = !o.more_limits;
  text($('more-limits'), `${number(o.more_limits)} limits with fewer denials are not shown. The API lists all: api/v1/limits.`);
}

// busiest lists a limit's clients when it is opened.
function busiest(limit) {
  const best = el('ul', { class: 'ranking' });
  const details = el('details', {}, el('summary', {}, 'Busiest clients', el('span', { class: 'quiet' }, ' of ' + limit)), best);
  details.addEventListener('toggle', async () => {
    if (!details.open) return;
    try {
      const { clients } = await get('clients?by=busy&n=8&limit=' + encodeURIComponent(limit));
      best.replaceChildren(...clients.map((c) => el('li', {}, client(c.key, c.label), el('span', {}, `${number(c.minute.requests)}/min, ${percent(c.used)} used`))));
      if (!clients.length) best.replaceChildren(el('li', {}, 'None yet'));
    } catch (e) { best.replaceChildren(el('li', {}, e.message)); }
  });
  return details;
}

function showNear(o) {
  $('near-none').hidden = o.near.length > 0;
  $('near-list').hidden = o.near.length === 0;
  list($('near-list').querySelector('tbody'), o.near.slice(0, 8), (c) => c.limit + ' ' + c.key,
    (c) => el('tr', {}, el('td', {}, client(c.key, c.label)), el('td', { class: 'limit' }, c.limit), el('td', { class: 'number' }), el('td', { class: 'number' })),
    (row, c) => { text(row.children[2], percent(c.used)); text(row.children[3], number(c.minute.requests)); });
}

function showStore(o) {
  const s = o.store, pill = $('store-state');
  const state = { ok: ['Store ok', 'ok'], degraded: ['Store degraded', 'warn'], outage: ['Store out', 'bad'] }[s.state];
  pill.className = 'pill ' + state[1];
  text(pill, state[0]);
  let line = s.shared ? watched(o) : 'In memory: limits, blocks and actions are those of this process alone.';
  if (s.outage) line = `No answer for ${span(clock.now() - Date.parse(s.outage.since))}${s.outage.class ? ': ' + s.outage.class : ''}. Each limit follows its outage action.`;
  else if (s.ledger_outage) line = `PostgreSQL has not answered for ${span(clock.now() - Date.parse(s.ledger_outage.since))}. What clients use waits until it does; clients that the store does not know follow their limit's outage action.`;
  else if (s.state === 'degraded') line = 'A breaker is open: that server is not asked, and its clients are decided by outage actions.';
  text($('store-text'), line);
  $('store-help').hidden = !s.shared || !(s.slow.times || s.ended.outages || s.outage);
  $('store-help').firstElementChild.hash = s.outage ? 'weblimitoutage' : 'weblimitfallback';
  alarm('store', s.state === 'ok' ? '' : `${state[0]}. ${line}`);
  $('nodes').hidden = s.nodes.length === 0;
  list($('nodes').querySelector('tbody'), s.nodes, (n) => n.node, (n) => el('tr', {}, el('td', { class: 'mono' }, n.node), el('td', {}, el('span')), el('td', { class: 'number' }), el('td')),
    (row, n) => {
      const [, breaker, errors, when] = row.children;
      breaker.firstChild.className = 'chip ' + (n.breaker === 'open' ? 'bad' : 'ok');
      text(breaker.firstChild, n.breaker);
      text(errors, number(n.errors));
      text(when, n.last_error_at ? `${n.class}, ${ago(n.last_error_at)}` : '');
    });
  $('events-title').hidden = s.events.length === 0;
  list($('events'), s.events.slice(0, 8), (e) => e.at + e.kind + (e.node ?? ''), (e) => el('li', {}, el('span', {}, [e.kind, e.class, e.node, e.count ? `${e.count} times` : '', e.duration_ms ? 'after ' + span(e.duration_ms) : ''].filter(Boolean).join(', ')), el('span')),
    (li, e) => text(li.lastChild, ago(e.at)));
}

// watched says how the store has done so far, when it answers.
function watched(o) {
  const s = o.store, times = (n) => (n === 1 ? 'once' : `${number(n)} times`), all = `in the ${span(clock.now() - Date.parse(s.since))} that ${o.instance} has watched`;
  let line = `No outage ${all}.`;
  if (s.ended.outages) line = `${s.ended.outages === 1 ? '1 outage' : `${number(s.ended.outages)} outages`} ${all}: ${s.ended.outages === 1 ? `it ended ${ago(s.ended.last_at)}, after` : `the last ended ${ago(s.ended.last_at)}, the longest lasted`} ${span(s.ended.longest_ms)}.`;
  if (s.slow.times) line += ` Slow ${times(s.slow.times)}, last ${ago(s.slow.last_at)}: ${s.slow.timeouts === 1 ? '1 decision was' : `${number(s.slow.timeouts)} decisions were`} made without the store, which had not answered in time.`;
  return line;
}

// showRegions says whether home answers, and what was leased from it.
function showRegions(regions) {
  const away = regions.filter((r) => r.home_away);
  alarm('regions', away.map((r) => `Home does not answer the region ${r.region}, which lives on its floor.`).join(' '));
  $('regions').hidden = regions.length === 0;
  text($('regions-note'), 'As this instance sees them, and counted since it began.');
  list($('regions').querySelector('ul'), regions, (r) => r.region, () => el('li', {}, el('span', { class: 'mono' }), el('span', { class: 'chip' }), el('p', { class: 'note' })),
    (li, r) => {
      const [name, chip, note] = li.children;
      text(name, r.region);
      chip.className = 'chip ' + (r.home_away ? 'bad' : 'ok');
      text(chip, r.home_away ? 'home away' : r.home_trip_ms ? 'home answers' : 'home not asked');
      const keys = `${number(r.keys)} ${r.keys === 1 ? 'key' : 'keys'} above the floor`;
      text(note, r.home_away ? `No answer for ${span(clock.now() - Date.parse(r.home_away.since))}${r.home_away.class ? ': ' + r.home_away.class : ''}. ${keys}.`
        : r.home_trip_ms ? `It takes ${number(r.home_trip_ms)} ms. ${keys}.` : `${keys}.`);
    });
  const limits = regions.flatMap((r) => r.limits.map((l) => ({ ...l, region: r.region })));
  $('leased').hidden = limits.length === 0;
  list($('leased').querySelector('tbody'), limits, (l) => l.region + ' ' + l.limit, (l) => el('tr', {}, el('td', {}, regions.length > 1 ? `${l.limit}, ${l.region}` : l.limit, el('p', { class: 'note' })), ...Array.from({ length: 5 }, () => el('td', { class: 'number' }))),
    (row, l) => {
      const [first, ...numbers] = row.children;
      [l.leased, l.spent, l.messages, l.waited, l.denied_early].forEach((n, i) => text(numbers[i], number(n)));
      const note = first.lastChild;
      text(note, [l.failed ? `${number(l.failed)} leases not answered` : '', l.lost ? `${number(l.lost)} units lost on their way` : '', l.returned ? `${number(l.returned)} units went back: the clocks of region and home differ` : ''].filter(Boolean).join(', '));
      note.hidden = !note.textContent;
    });
}

function showInstances(o) {
  const ill = o.instances.filter((i) => i.name !== o.instance && i.state !== 'ok'), out = ill.filter((i) => i.state === 'outage').length;
  const some = out === 1 ? '1 other instance decides' : `${out} other instances decide`;
  alarm('instances', out ? `${some} without the store.` : '');
  text($('instances-note'), o.partial || (o.instances.length > 1 ? `Numbers are the sums of all ${o.instances.length}.` : 'Numbers are those of this instance.') + mixed(o.instances));
  list($('instances').querySelector('ul'), [...o.instances, ...o.silent.map((i) => ({ ...i, state: 'silent' }))], (i) => i.name + (i.state === 'silent'),
    (i) => el('li', {}, el('span', { class: 'mono' }, i.name), el('span', {}, el('span', { class: 'chip' }), el('span')), el('p', { class: 'note' })),
    (li, i) => {
      const [, state, note] = li.children, [chip, when] = state.children;
      chip.className = 'chip ' + ({ ok: 'ok', degraded: 'warn', outage: 'bad' }[i.state] ?? '');
      text(chip, i.state === 'outage' ? 'store out' : i.state);
      text(when, ' ' + (i.name === o.instance ? 'this one' : ago(i.at)));
      text(note, instanceNote(i));
      note.hidden = !note.textContent;
    });
}

// mixed says that instances decide by different versions of a policy, as during a roll-out.
function mixed(instances) {
  const kinds = new Set(instances.filter((i) => i.versions).map((i) => i.versions.join(', ')));
  return kinds.size > 1 ? ` They decide by different versions of the policy: ${[...kinds].join('; ')}.` : '';
}

// instanceNote says how an instance sees its store.
function instanceNote(i) {
  if (i.state === 'silent') return 'It publishes nothing any more: it has stopped, or can’t reach the store.';
  const open = (i.open ?? []).map((b) => `${b.node} is not asked: ${b.class || 'it failed'}, ${ago(b.since)}`);
  if (i.state === 'outage') open.unshift(`No answer for ${span(clock.now() - Date.parse(i.since))}${i.class ? ': ' + i.class : ''}`);
  else if (i.since && clock.now() - Date.parse(i.since) < 3600000) open.push(`Last outage: ${span(i.lasted_ms)}, ended ${ago(i.since)}${i.class ? ', ' + i.class : ''}`);
  if (i.versions) open.push('Policy ' + i.versions.join(', '));
  return open.join('. ');
}

async function showBlocks() {
  try {
    const b = await get('blocks');
    $('blocks-list').hidden = b.blocks.length === 0;
    const none = 'Nobody is blocked.';
    text($('blocks-note'), b.error || (b.more ? `The first ${number(b.blocks.length)}; there are more.` : b.blocks.length ? '' : none));
    list($('blocks-list').querySelector('tbody'), b.blocks, (x) => x.limit + ' ' + x.key + ' ' + (x.idle ?? ''), (x) => el('tr', {}, el('td', {}, client(x.key, x.label)), el('td', {}, x.limit + (x.idle ? `: blocks nobody, ${x.idle}` : '')), el('td'),
      el('td', { class: 'act' }, el('button', { type: 'button', class: 'small', data: { do: 'ask-unblock', key: x.key, limit: x.limit } }, 'Unblock', el('span', { class: 'quiet' }, ' ' + (x.label || x.key))))),
    (row, x) => { text(row.children[2], span(Date.parse(x.until) - clock.now())); row.children[3].firstChild.hidden = !mayAct; });
  } catch (e) { text($('blocks-note'), e.message); }
}

// alarm shows what is wrong with the page or the store, once.
const wrong = {};
function alarm(about, message) {
  wrong[about] = message;
  const all = Object.values(wrong).filter(Boolean).join(' ');
  text($('alarm'), all);
  $('alarm').hidden = !all;
}

function connection(state, message) {
  const [word, kind] = { live: ['Live', 'ok'], polling: ['Each 5 s', 'ok'], ended: ['Logged out', 'bad'], lost: ['No connection', 'bad'] }[state];
  $('live-state').className = 'pill ' + kind;
  text($('live-state'), word);
  alarm('connection', state === 'ended' ? `${message} Reload the page.` : state === 'lost' ? `${message} What you see is old.` : '');
}

document.addEventListener('click', (e) => {
  const button = e.target.closest('[data-do]');
  if (!button) return;
  const { key, limit } = button.dataset, [what, action] = button.dataset.do.split('-');
  if (what === 'explain') explainer.explain(key);
  else if (what === 'close') explainer.close();
  else if (what === 'cancel') actions.cancel();
  else if (what === 'ask') actions.ask(action, key, limit, explainer.client());
});
$('lookup').addEventListener('submit', (e) => {
  e.preventDefault();
  const query = $('query').value.trim();
  if (query) explainer.explain(query);
});
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $('dialog').open) return;
  if (e.key === '/' && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); $('query').focus(); $('query').select(); }
  if (e.key === 'Escape' && !$('explain').hidden) explainer.close();
});

hatch();
live((o) => { const first = !last; show(o); explainer.refresh(); if (first) showBlocks(); }, connection);
actions.wire(() => { get('overview').then(show, () => {}); explainer.refresh(); showBlocks(); });
setInterval(() => {
  if (!document.hidden && last) showBlocks();
}, 10000);
// A browser tries a broken stream again by itself, without a word: what is old must not look fresh.
setInterval(() => {
  const old = Date.now() - last;
  if (last && old > 8000 && !document.hidden) connection('lost', `No data for ${span(old)}.`);
}, 2000);
