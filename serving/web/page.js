'use strict';
const $ = (id) => document.getElementById(id);
const enc = encodeURIComponent;
let shown = null;  // the feed on the page
let shownAt = 0;   // performance.now() when it came

async function call(path, options) {
  const response = await fetch(path, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok && response.status !== 503) throw new Error(body.detail || `${response.status} for ${path}`);
  return { status: response.status, body };
}
const postEvents = (events) => call('/v1/events', {
  method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(events),
});
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const percent = (p) => `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;
function age(ms) {
  const s = Math.max(0, ms / 1000);
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}
// The server's clock: the wall, or on a replayed log the time of its newest event.
const eventTime = () => Math.round(shown.time + (performance.now() - shownAt));

function taskRow([task, p]) {
  return element('div', { class: 'task' }, element('span', {}, task),
    element('meter', { min: '0', max: '1', value: String(p), 'aria-label': `probability of ${task}` }),
    element('span', {}, percent(p)));
}

function card(item, index) {
  const status = element('p', { role: 'status' });
  const node = element('li', { class: 'card', 'data-item': item.item_id });
  async function act(type) {
    try {
      const { body } = await postEvents([{
        topic: 'clicks', user_id: shown.user, item_id: item.item_id, type, timestamp: eventTime(),
        impression_id: shown.impression_id, event_id: `${shown.request_id}:${item.item_id}:${type}`,
      }]);
      if (body.accepted !== 1) throw new Error(body.detail || 'the event was refused');
      node.classList.add('done');
      status.textContent = `${type} published`;
      setTimeout(showHistory, 400);
    } catch (error) { status.textContent = String(error.message || error); }
  }
  const title = item.title || item.item_id;
  const about = [item.author_id ? `by ${item.author_id}` : null, (item.tags || []).join(', ') || null,
    item.published_at ? `${age(shown.time - item.published_at)} old` : null].filter(Boolean).join(' · ');
  node.append(
    element('h3', {}, element('button', { class: 'open', type: 'button', onclick: () => act('click') }, title)),
    element('p', {}, about || item.item_id),
    element('div', { class: 'badges' }, element('span', { class: 'badge' }, `#${index + 1}`),
      element('span', { class: 'badge' }, item.source),
      item.explored ? element('span', { class: 'badge explored' }, 'exploring') : null,
      item.score === null ? null : element('span', { class: 'badge' }, `score ${item.score.toFixed(3)}`)),
    element('div', {}, ...Object.entries(item.probabilities).map(taskRow)));
  if (item.why && item.why.length) {
    node.append(element('details', {}, element('summary', {}, 'Why this?'),
      element('ul', {}, ...item.why.map((why) => element('li', {}, why)))));
  }
  node.append(element('div', { class: 'actions' },
    element('button', { class: 'plain', type: 'button', onclick: () => act('like') }, 'Like'),
    element('button', { class: 'plain', type: 'button', onclick: () => act('hide') }, 'Hide')), status);
  return node;
}

async function publishImpression() {
  shown.impression_id = `page-${shown.request_id}`;
  const impression = {
    topic: 'impressions', impression_id: shown.impression_id, user_id: shown.user, timestamp: shown.time,
    request_id: shown.request_id,
    items: shown.items.map((item, position) => ({ item_id: item.item_id, position, propensity: item.propensity })),
  };
  if ($('surface').value) impression.surface = $('surface').value;
  await postEvents([impression]);
}

async function showFeed(event) {
  if (event) event.preventDefault();
  const user = $('user').value.trim();
  if (!user) return;
  $('feed-status').textContent = 'Asking…';
  try {
    const surface = $('surface').value ? `&surface=${enc($('surface').value)}` : '';
    const { status, body } = await call(`/v1/feed/${enc(user)}?count=${enc($('count').value)}&explain=true${surface}`);
    if (status !== 200) throw new Error(body.detail || 'the server is busy; try again');
    shown = body;
    shownAt = performance.now();
    $('cards').replaceChildren(...body.items.map(card));
    const model = body.model_version ? `model ${body.model_version}` : 'no model';
    let text = `${body.items.length} items for ${body.user} in ${body.took_ms.toFixed(1)} ms by ${model}, ` +
      `from ${body.history} history items. Click a title: it publishes the click.`;
    if (body.degraded) text += ` Degraded: ${body.degraded}.`;
    if (!body.items.length) text += ' Nothing unseen is left; publish more items.';
    $('feed-status').textContent = text;
    if ($('publish').checked && body.items.length) await publishImpression();
    setTimeout(showHistory, 400);
  } catch (error) { $('feed-status').textContent = String(error.message || error); }
}

async function showHistory() {
  if (!shown) return;
  const response = await fetch(`/v1/users/${enc(shown.user)}`);
  if (response.status === 404) {
    $('history-status').textContent = 'Nothing yet: this is a cold start.';
    $('history').replaceChildren();
    return;
  }
  const user = await response.json();
  if (!response.ok) { $('history-status').textContent = user.detail; return; }
  const entries = user.history.slice(-60).reverse();
  $('history-status').textContent = `${user.history.length} in the sequence, the newest first` +
    (user.segment ? `; segment ${user.segment}` : '') + '.';
  $('history').replaceChildren(...entries.map((entry) => {
    const acts = entry.actions.map((action) => action.type).join(', ');
    return element('li', { class: acts ? 'acted' : '' }, element('strong', {}, entry.title || entry.item_id || 'item'),
      element('div', {}, (entry.tags || []).join(', ')), element('div', {}, acts || 'shown'),
      element('div', { class: 'quiet' }, `${age(user.time - entry.time)} ago`));
  }));
}

// --- metrics ---------------------------------------------------------------------------------------
const rates = [];  // of this page's polls
let last = null;
const sample = (metrics, name) => metrics.samples.filter((s) => s.name === name)
  .reduce((sum, s) => sum + (s.value || 0), 0);

function drawRates(metrics) {
  const now = { x: metrics.now, feeds: sample(metrics, 'sirenfeed_serving_feeds_total'),
    events: sample(metrics, 'sirenfeed_serving_events_accepted_total') };
  if (last && now.x > last.x) {
    const seconds = (now.x - last.x) / 1000;
    rates.push({ x: now.x, feeds: (now.feeds - last.feeds) / seconds, events: (now.events - last.events) / seconds });
    if (rates.length > 300) rates.shift();
  }
  last = now;
  Charts.draw('chart-rate', ['feeds', 'events'].map((name) => ({
    label: `${name}/s`, points: rates.map((r) => ({ x: r.x, y: r[name] })),
  })));
}

/** A version's figures by task: scored when the window closed, before learning. */
const progressive = (version) => version.metrics.progressive_at_close || {};

function drawLearning(metrics) {
  const versions = (metrics.versions || []);
  const newest = versions.length ? progressive(versions[versions.length - 1]) : {};
  const tasks = Object.keys(newest).filter(
    (task) => newest[task] && typeof newest[task] === 'object' && 'ne' in newest[task]);
  for (const [id, figure] of [['chart-ne', 'ne'], ['chart-auc', 'auc'], ['chart-ece', 'ece']]) {
    Charts.draw(id, tasks.map((task) => ({
      label: task,
      points: versions.map((v) => ({
        x: v.created, y: progressive(v)[task] ? progressive(v)[task][figure] : null,
      })),
    })));
  }
  if (!tasks.length) return;
  const number = (value, digits) => (value === null || value === undefined ? '–' : value.toFixed(digits));
  $('figures').replaceChildren(...tasks.map((task) => {
    const f = newest[task];
    return element('tr', {}, element('th', { scope: 'row' }, task), ...[number(f.ne, 4), number(f.auc, 4),
      number(f.log_loss, 4), number(f.ece, 4), number(f.rate, 4), String(f.cells_total),
    ].map((text) => element('td', {}, text)));
  }));
}

async function poll() {
  try {
    const [{ body: metrics }, { body: ready }] = await Promise.all([call('/v1/metrics'), call('/readyz')]);
    const reasons = ready.reasons && ready.reasons.length ? `: ${ready.reasons.join(', ')}` : '';
    $('state').textContent = ready.status + reasons;
    $('lag').textContent = `${ready.lag_events} events`;
    const model = metrics.model || { version: 0 };
    $('model-version').textContent = model.version
      ? `${model.version} (${model.variant})${model.pinned ? ', pinned' : ''}` : 'none yet';
    $('model-age').textContent = model.version ? `${age(1000 * model.age_seconds)} ago` : '–';
    const feeds = sample(metrics, 'sirenfeed_serving_feed_seconds_count');
    $('feeds').textContent = String(feeds);
    const feed_s = sample(metrics, 'sirenfeed_serving_feed_seconds_sum') / feeds;
    $('feed-time').textContent = feeds ? `${(1000 * feed_s).toFixed(1)} ms` : '–';
    drawLearning(metrics);
    drawRates(metrics);
  } catch (error) { $('state').textContent = 'no answer'; }
}

async function showVersions() {
  try {
    const { body } = await call('/v1/models');
    const versions = (body.versions || []).slice(-10).reverse();
    $('versions').replaceChildren(...versions.map((v) => element('li', {},
      element('strong', {}, `Version ${v.version}`), element('span', {}, new Date(v.created).toLocaleString()),
      v.version === body.current ? element('span', { class: 'badge' }, 'served') : null,
      v.version === body.pinned ? element('span', { class: 'badge' }, 'pinned') : null,
      element('button', { class: 'plain', type: 'button', 'aria-label': `Pin version ${v.version}`,
        onclick: () => change(`/v1/models/${v.version}/pin`) }, 'Pin'))));
  } catch (error) { $('versions-status').textContent = String(error.message || error); }
}
async function change(path) {
  try {
    const { body } = await call(path, { method: 'POST' });
    $('versions-status').textContent = `Version ${body.version} is served${body.pinned ? ' and pinned' : ''}.`;
  } catch (error) { $('versions-status').textContent = String(error.message || error); }
  showVersions();
  poll();
}

$('feed-form').addEventListener('submit', showFeed);
$('rollback').addEventListener('click', () => change('/v1/models/rollback'));
$('unpin').addEventListener('click', () => change('/v1/models/unpin'));
// A link may name the user: /?user=u1
const linked = new URLSearchParams(window.location.search).get('user');
if (linked) {
  $('user').value = linked;
  showFeed();
}
poll();
showVersions();
setInterval(poll, 2000);
setInterval(showVersions, 10000);
