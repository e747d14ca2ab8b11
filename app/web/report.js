'use strict';
(() => {
  const report = JSON.parse(document.getElementById('report').textContent);
  const metrics = {
    ne: 'NE', auc: 'AUC', gauc_user_live: 'GAUC*', gauc_user_day_live: 'GAUC day*',
    gauc_user_day_frozen: 'GAUC day', auc_within_impression: 'AUC imp.', log_loss: 'log loss', ece: 'ECE',
    ndcg10: 'NDCG@10', map: 'MAP', mrr: 'MRR',
  };
  const lowerIsBetter = new Set(['ne', 'log_loss', 'ece']);
  const palette = ['#2f7fd0', '#d0772f', '#3a9a5b', '#a35bc0', '#b8483f', '#2b9c9c', '#a88a1d', '#7d7f86'];
  const dashes = [[], [6, 3], [2, 3]];
  const variants = report.parts.length ? report.parts[0].variants.map((v) => v.variant) : [];
  const color = (variant) => palette[variants.indexOf(variant) % palette.length];
  const dash = (variant) => dashes[Math.floor(variants.indexOf(variant) / palette.length) % dashes.length];
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (x, digits = 4) => (x === null || x === undefined ? '–' : x.toFixed(digits));
  const signed = (x) => (x === null ? '–' : (x < 0 ? '−' : '+') + Math.abs(x).toFixed(4));
  const utc = (ms) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
  const windows = [...new Map(report.parts.map((p) => [`${p.from_ms}-${p.to_ms}`, p])).values()];
  const tasks = [...new Set(report.parts.map((p) => p.task))];

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }
  function fill(id, options, chosen) {
    for (const [value, text] of options) $(id).append(element('option', text, { value }));
    if (chosen !== undefined) $(id).value = chosen;
    $(id).addEventListener('change', draw);
  }
  function part(slice) {
    const [from, to] = $('window').value.split('-').map(Number);
    return report.parts.find((p) => p.from_ms === from && p.to_ms === to && p.task === $('task').value &&
                                    p.slice === slice);
  }
  /// 'better', 'worse' or '' where the interval includes 0 or there is none.
  function verdict(comparison, metric) {
    const low = comparison.low[metric], high = comparison.high[metric];
    if (low === null || (low <= 0 && high >= 0)) return '';
    return (high < 0) === lowerIsBetter.has(metric) ? 'better' : 'worse';
  }
  function differenceCell(v, metric) {
    const cell = element('td');
    if (!v.comparison) { cell.textContent = report.baseline ? 'baseline' : '–'; return cell; }
    const c = v.comparison, what = verdict(c, metric);
    cell.append(element('span', signed(c.difference[metric]) + (what ? ` ${what}` : ''), what ? { class: what } : {}));
    if (c.low[metric] !== null) cell.append(element('small', `${signed(c.low[metric])} to ${signed(c.high[metric])}`));
    return cell;
  }
  function valueCell(v, metric) {
    const cell = element('td', number(v.mean[metric]));
    if (v.spread[metric] !== null) cell.append(element('small', `±${number(v.spread[metric])}`));
    return cell;
  }
  function head(titles) {
    const row = element('tr');
    for (const title of titles) row.append(element('th', title, { scope: 'col' }));
    const made = element('thead');
    made.append(row);
    return made;
  }

  function drawTable() {
    const p = part($('slice').value), metric = $('metric').value, body = element('tbody');
    const defined = Object.keys(metrics).filter((m) => p.variants.some((v) => v.mean[m] !== null));
    const titles = ['Variant', `${metrics[metric]} − ${report.baseline || 'baseline'}`];
    for (const v of p.variants) {
      const row = element('tr', undefined, v.variant === report.baseline ? { class: 'baseline' } : {});
      row.append(element('td', v.variant));
      if (report.baseline) row.append(differenceCell(v, metric));
      for (const m of defined) row.append(valueCell(v, m));
      body.append(row);
    }
    $('figures').replaceChildren(
      head([titles[0], ...(report.baseline ? [titles[1]] : []), ...defined.map((m) => metrics[m])]), body);
    const about = report.slices.find((s) => s.name === p.slice).description;
    const seeds = p.variants[0].seeds.length;
    $('table-note').textContent = `${p.rows.toLocaleString('en')} exposures of ${p.users.toLocaleString('en')} ` +
      `users (${about}); rate ${number(p.rate)}.` +
      (seeds > 1 ? ` Mean of ${seeds} seeds ± their standard deviation.` : '');
  }

  const charts = new Map();
  function chart(id, config) {
    const quiet = css('--quiet'), line = css('--line');
    if (charts.has(id)) charts.get(id).destroy();
    config.options = { animation: false, responsive: true, maintainAspectRatio: false, ...config.options };
    config.options.color = css('--ink');
    for (const axis of Object.values(config.options.scales)) {
      axis.ticks = { color: quiet, maxTicksLimit: innerWidth < 600 ? 4 : 7, maxRotation: 0, autoSkipPadding: 12,
                     ...axis.ticks };
      axis.grid = { color: line };
      if (axis.title) axis.title.color = quiet;
    }
    const legend = (config.options.plugins ||= {}).legend ||= {};
    legend.labels = { boxWidth: 12, color: css('--ink'), ...legend.labels };
    charts.set(id, new Chart($(id), config));
  }
  /// Rows of a forest plot: [{label, low, at, high, color}]
  function forest(id, rows, title, zero) {
    const bars = rows.map((r) => (r.low === null ? null : [r.low, r.high]));
    const points = rows.map((r, i) => ({ x: r.at, y: rows[i].label })).filter((q) => q.x !== null);
    chart(id, {
      data: {
        labels: rows.map((r) => r.label),
        datasets: [
          { type: 'scatter', data: points, pointRadius: 5, backgroundColor: rows.map((r) => r.color), label: title },
          { type: 'bar', data: bars, barThickness: 4, backgroundColor: rows.map((r) => r.color + '99'),
            label: '95 % interval' },
        ],
      },
      options: {
        indexAxis: 'y', plugins: { legend: { display: false } },
        scales: {
          x: { title: { display: true, text: title },
               ...(zero ? { suggestedMin: 0, suggestedMax: 0 } : { grace: '10%' }) },
          y: { type: 'category', labels: rows.map((r) => r.label), offset: true,
               ticks: { autoSkip: false, maxTicksLimit: 99, font: { size: 11 } } },
        },
      },
      plugins: zero ? [zeroLine] : [],
    });
  }
  const zeroLine = {
    id: 'zero',
    afterDatasetsDraw(c) {
      const x = c.scales.x.getPixelForValue(0);
      c.ctx.save();
      c.ctx.strokeStyle = css('--ink');
      c.ctx.setLineDash([4, 3]);
      c.ctx.beginPath();
      c.ctx.moveTo(x, c.chartArea.top);
      c.ctx.lineTo(x, c.chartArea.bottom);
      c.ctx.stroke();
      c.ctx.restore();
    },
  };

  function drawForest() {
    $('differences').hidden = !report.baseline;
    if (!report.baseline) return;
    const p = part($('slice').value), metric = $('metric').value;
    const rows = p.variants.filter((v) => v.comparison).map((v) => ({
      label: v.variant, low: v.comparison.low[metric], at: v.comparison.difference[metric],
      high: v.comparison.high[metric], color: color(v.variant),
    }));
    const better = lowerIsBetter.has(metric) ? 'left of 0 is better' : 'right of 0 is better';
    $('difference-note').textContent = `${metrics[metric]} of each variant less that of ${report.baseline}, mean ` +
      `over the seeds; ${better}.` +
      (report.resamples ? ` Bars: 95 % over ${report.resamples} resamples of the users.` : '');
    forest('forest', rows, `${metrics[metric]} − ${report.baseline}`, true);
  }
  function drawSlices() {
    const metric = $('metric').value, variant = $('variant').value, body = element('tbody');
    const compared = report.baseline && variant !== report.baseline;
    const rows = [];
    for (const slice of report.slices) {
      const p = part(slice.name), v = p.variants.find((one) => one.variant === variant);
      const row = element('tr');
      row.append(element('td', slice.name.replaceAll('_', ' ')), element('td', p.rows.toLocaleString('en')),
                 element('td', number(p.rate)), valueCell(v, metric));
      if (compared) row.append(differenceCell(v, metric));
      body.append(row);
      const c = v.comparison;
      rows.push({ label: slice.name.replaceAll('_', ' '), color: color(variant),
                  low: compared ? c.low[metric] : null, high: compared ? c.high[metric] : null,
                  at: compared ? c.difference[metric] : v.mean[metric] });
    }
    $('slice-figures').replaceChildren(
      head(['Slice', 'Rows', 'Rate', metrics[metric], ...(compared ? [`− ${report.baseline}`] : [])]), body);
    $('slices-note').textContent = report.slices.filter((s) => s.name !== 'all')
      .map((s) => `${s.name.replaceAll('_', ' ')}: ${s.description}`).join(' · ');
    forest('slices', rows, metrics[metric] + (compared ? ` − ${report.baseline}` : ` of ${variant}`), compared);
  }
  function drawTime() {
    const t = report.timelines.find((one) => one.task === $('task').value);
    $('time-note').textContent = `In buckets of ${t.bucket_ms / 3600000} h, against each bucket's own rate; below 1 ` +
      'beats always guessing it. A click on a name hides its line.';
    chart('time', {
      type: 'line',
      data: { datasets: t.series.map((s) => ({
        label: s.variant, borderColor: color(s.variant), backgroundColor: color(s.variant), borderDash: dash(s.variant),
        borderWidth: 2, pointRadius: 0, data: t.from_ms.map((x, i) => ({ x, y: t.rows[i] < 100 ? null : s.ne[i] })),
      })) },
      options: {
        parsing: false, interaction: { mode: 'nearest', axis: 'x', intersect: false },
        plugins: { tooltip: { callbacks: { title: (items) => utc(items[0].parsed.x) } } },
        scales: { x: { type: 'linear', ticks: { callback: (v) => utc(v).slice(5, 10) } },
                  y: { title: { display: true, text: 'NE' } } },
      },
    });
  }
  function drawCalibration() {
    const curves = report.calibration.filter((c) => c.task === $('task').value);
    const sets = curves.map((c) => ({
      label: c.variant, borderColor: color(c.variant), backgroundColor: color(c.variant), borderDash: dash(c.variant),
      borderWidth: 2, pointRadius: 2, showLine: true,
      data: c.predicted.map((x, i) => ({ x, y: c.observed[i], cells: c.cells[i] })).filter((q) => q.x !== null),
    }));
    sets.push({ label: 'as predicted', data: [{ x: 0, y: 0 }, { x: 1, y: 1 }], borderColor: css('--quiet'),
                backgroundColor: css('--quiet'), borderDash: [4, 3], borderWidth: 1, pointRadius: 0, showLine: true });
    chart('calibration', {
      type: 'scatter', data: { datasets: sets },
      options: {
        plugins: { tooltip: { callbacks: { label: (q) => `${q.dataset.label}: ${number(q.parsed.x, 3)} → ` +
          `${number(q.parsed.y, 3)}` + (q.raw.cells ? ` (${q.raw.cells} cells)` : '') } } },
        scales: { x: { title: { display: true, text: 'predicted probability' } },
                  y: { title: { display: true, text: 'observed rate' } } },
      },
    });
  }
  function drawCosts() {
    const costs = report.costs || [];
    $('costs').hidden = costs.length === 0;
    if (!costs.length) return;
    const about = report.cost_slate;
    const shown = [['dense_parameters', 'dense parameters'], ['dense_bytes', 'dense bytes'],
                   ['table_bytes', 'bytes of table rows'], ['flops_one', 'FLOPs, 1 candidate'],
                   ['flops_many', `FLOPs, ${about.candidates} candidates`]];
    const body = element('tbody');
    for (const cost of costs) {
      const row = element('tr', undefined, cost.variant === report.baseline ? { class: 'baseline' } : {});
      row.append(element('td', cost.variant));
      for (const [key] of shown) {
        const cell = element('td', Math.round(cost[key]).toLocaleString('en'));
        const over = cost.over_baseline && cost.over_baseline[key];
        if (over !== null && over !== undefined && cost.variant !== report.baseline) {
          cell.append(element('small', `${signed(100 * over).slice(0, -2)} %`));
        }
        row.append(cell);
      }
      body.append(row);
    }
    $('cost-figures').replaceChildren(head(['Variant', ...shown.map(([, title]) => title)]), body);
    $('cost-note').textContent = `By formula, for ${about.history_tokens} history tokens that each have a time and ` +
      'tags of their own: the angles are evaluated once for each.';
    const others = costs.filter((c) => c.over_baseline && c.variant !== report.baseline);
    chart('cost', {
      type: 'bar',
      data: { labels: others.map((c) => c.variant), datasets: shown.filter(([key]) => key !== 'dense_bytes').map(
        ([key, title], i) => ({ label: title, backgroundColor: palette[i],
                                data: others.map((c) => 100 * c.over_baseline[key]) })) },
      options: { indexAxis: 'y', scales: { x: { title: { display: true, text: `% over ${report.baseline}` } },
                                           y: { ticks: { autoSkip: false, maxTicksLimit: 99, font: { size: 11 } } } } },
    });
  }
  function draw() {
    if (!report.parts.length) return;
    drawTable();
    drawForest();
    drawSlices();
    drawTime();
    drawCalibration();
    drawCosts();
  }

  $('origin').textContent = `${report.file} (${report.format}` +
    (report.shuffled_times ? ', control: times shuffled within each history' : '') +
    `) · sirenfeed ${report.commit.slice(0, 12)}`;
  for (const id of ['forest', 'cost']) $(id).parentElement.style.height = `${8 + 1.6 * variants.length + 4}rem`;
  fill('task', tasks.map((t) => [t, t]));
  fill('window', windows.map((w) => [`${w.from_ms}-${w.to_ms}`, `${utc(w.from_ms)} to ${utc(w.to_ms)}`]));
  $('window').selectedIndex = windows.length - 1;
  fill('metric', Object.entries(metrics));
  fill('slice', report.slices.map((s) => [s.name, s.name.replaceAll('_', ' ')]));
  fill('variant', variants.map((v) => [v, v]), variants.find((v) => v === 'siren') || variants[0]);
  $('choice').addEventListener('submit', (event) => event.preventDefault());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
})();
