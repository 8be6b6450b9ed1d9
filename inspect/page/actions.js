// Reset, block and unblock: each asks first.

import { $, el, say, text } from './dom.js';
import { post } from './net.js';

const times = [['5 minutes', 300], ['1 hour', 3600], ['8 hours', 28800], ['1 day', 86400], ['7 days', 604800], ['30 days', 2592000]];
const asks = {
  reset: { title: 'Reset this client?', ok: 'Reset', done: 'Reset',
    text: (l) => `What it has used ${l ? 'under this limit' : 'under all limits'} is forgotten, and so are its blocks there, on all instances.` },
  unblock: { title: 'Unblock this client?', ok: 'Unblock', done: 'Unblocked',
    text: (l) => `Its blocks ${l ? 'under this limit' : 'under all limits'} end, and its strikes are forgotten, on all instances. What it has used stays used.` },
  block: { title: 'Block a client?', ok: 'Block', done: 'Blocked',
    text: () => 'All its requests that this limit counts are denied, on all instances. It replaces a block in force.' },
};

let asked, opener, limits = [], most = 0;
export function setLimits(all, maxBlock) { limits = all.filter((l) => l.can_block && l.here); most = maxBlock; }
export const canBlock = () => limits.length > 0;

// ask opens the dialog. likely is the client that may be meant, if there is no key.
export function ask(action, key = '', limit = '', likely = '') {
  const words = asks[action];
  asked = action;
  opener = document.activeElement;
  text($('dialog-title'), words.title);
  text($('dialog-text'), words.text(limit));
  text($('dialog-ok'), words.ok);
  $('dialog-error').hidden = true;
  $('dialog-ok').disabled = false;
  $('dialog-key').value = key || likely;
  $('dialog-key').readOnly = key !== '';
  $('field-limit').hidden = action !== 'block' && limit === '';
  $('field-time').hidden = action !== 'block';
  const names = limit ? [limit] : limits.map((l) => l.name);
  // First one that counts the client that may be meant: others would refuse the block.
  const kind = (key || likely).split(':')[0], counts = limits.find((l) => l.keys === kind);
  $('dialog-limit').replaceChildren(...names.map((n) => el('option', { selected: n === counts?.name }, n)));
  const fit = times.filter(([, s]) => s <= most);
  $('dialog-time').replaceChildren(...(fit.length ? fit : [[`${most} seconds`, most]]).map(([word, s]) => el('option', { value: s, selected: s === 3600 }, word)));
  if (action !== 'block' && !limit) $('dialog-limit').replaceChildren();
  $('dialog').showModal();
  $(key ? 'dialog-ok' : 'dialog-key').focus();
  if (!key) $('dialog-key').select();
}

export function cancel() {
  $('dialog').close();
  if (opener?.isConnected) opener.focus();
}

// wire calls after when something was done.
export function wire(after) {
  $('dialog').addEventListener('cancel', (e) => { e.preventDefault(); cancel(); });
  $('dialog').querySelector('form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const key = $('dialog-key').value.trim(), limit = $('dialog-limit').value;
    const body = asked === 'block' ? { key, limit, seconds: Number($('dialog-time').value) } : limit ? { key, limit } : { key };
    $('dialog-ok').disabled = true;
    try {
      const done = await post(asked, body);
      cancel();
      say(`${asks[asked].done}: ${done.key} under ${done.limits.join(', ')}` + (done.kept ? `. Not under ${done.kept.join(', ')}, whose use is kept in a book: adjust the allowance instead` : ''));
      after();
    } catch (error) {
      text($('dialog-error'), error.message);
      $('dialog-error').hidden = false;
      $('dialog-ok').disabled = false;
    }
  });
}
