'use strict';
// Line charts on Chart.js, in the page's colours.
const Charts = (() => {
  const palette = ['#2f7fd0', '#d0772f', '#3a9a5b', '#a35bc0', '#b8483f'];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const charts = new Map();

  function make(id) {
    const chart = new Chart(document.getElementById(id), {
      type: 'line',
      data: { datasets: [] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        interaction: { mode: 'nearest', axis: 'x', intersect: false },
        elements: { point: { radius: 0 }, line: { borderWidth: 2 } },
        scales: {
          x: { type: 'linear', ticks: { maxTicksLimit: 6, callback: (v) => clock(v) } },
          y: { ticks: { maxTicksLimit: 6 } },
        },
        plugins: {
          legend: { labels: { boxWidth: 12 } },
          tooltip: { callbacks: { title: (p) => clock(p[0].parsed.x) } },
        },
      },
    });
    charts.set(id, chart);
    return chart;
  }
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });

  /// series: [{label, points: [{x: ms, y}]}]; points without a number are gaps.
  function draw(id, series) {
    if (typeof Chart === 'undefined') return;
    const chart = charts.get(id) || make(id);
    Chart.defaults.color = css('--quiet');
    for (const axis of [chart.options.scales.x, chart.options.scales.y]) {
      axis.ticks.color = css('--quiet');
      axis.grid = { color: css('--line') };
    }
    chart.options.plugins.legend.labels.color = css('--ink');
    chart.data.datasets = series.map((s, i) => ({
      label: s.label, data: s.points, borderColor: palette[i % palette.length],
      backgroundColor: palette[i % palette.length], spanGaps: false,
    }));
    chart.update('none');
  }
  return { draw };
})();
