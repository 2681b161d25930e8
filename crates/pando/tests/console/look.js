// Shows each page that a text field holds in a frame, in all widths and colours, and reports what is wrong with it.
const found = [];

// The style of the pages, as a browser with this colour scheme applies it.
function coloured(style, scheme) {
  return style.replace('(prefers-color-scheme: dark)', scheme === 'dark' ? 'all' : 'not all')
    .replace('color-scheme: light dark', `color-scheme: ${scheme}`);
}

async function framed(html, width, use) {
  const frame = document.createElement('iframe');
  frame.style = `border:0;height:1500px;width:${width}px`;
  const loaded = new Promise(done => { frame.onload = done; });
  frame.srcdoc = html;
  document.body.append(frame);
  await loaded;
  const result = await use(frame.contentDocument, frame.contentWindow);
  frame.remove();
  return result;
}

// Lacks of the layout: what is wider than the screen, controls without a name, ids that occur twice, and requests to
// other origins.
function layout(page, view) {
  const hasName = one => one.getAttribute('aria-label') || one.labels?.length;
  const fields = [...page.querySelectorAll('input:not([type=hidden]), select, textarea:not([hidden])')];
  const links = [...page.querySelectorAll('a, button, summary')];
  const ids = [...page.querySelectorAll('[id]')].map(one => one.id);
  return {
    scroll_width: page.documentElement.scrollWidth,
    unnamed: fields.filter(one => !hasName(one))
      .concat(links.filter(one => !hasName(one) && !one.textContent.trim())).map(one => one.outerHTML),
    titles: page.querySelectorAll('h1').length,
    twice: ids.filter((id, place) => ids.indexOf(id) != place),
    foreign: view.performance.getEntriesByType('resource').map(one => one.name)
      .filter(name => !/^(file|data):/.test(name)),
  };
}

// What axe-core finds, of these rules or of all.
async function examined(page, view, rules) {
  const options = { resultTypes: ['violations'], ...(rules && { runOnly: { type: 'rule', values: rules } }) };
  const result = await view.axe.run(page, options);
  const serious = result.violations.filter(one => ['serious', 'critical'].includes(one.impact));
  return {
    rules: result.passes.length + result.violations.length,
    violations: serious.map(one => ({
      rule: one.id, count: one.nodes.length, first: one.nodes[0].html.slice(0, 300), why: one.nodes[0].failureSummary,
    })),
  };
}

// What is wrong with a page in light and, for the colours alone, in dark.
async function inBothColours(page, view) {
  const script = page.createElement('script');
  script.textContent = document.getElementById('axe').textContent;
  page.head.append(script);
  const style = page.querySelector('style');
  const both = style.textContent;
  style.textContent = coloured(both, 'light');
  const light = await examined(page, view);
  style.textContent = coloured(both, 'dark');
  return { light, dark: await examined(page, view, ['color-contrast']) };
}

async function all() {
  for (const held of document.querySelectorAll('textarea')) {
    const one = { page: held.title, layouts: [] };
    for (const width of WIDTHS) {
      await framed(held.value, width, async (page, view) => {
        one.layouts.push({ width, ...layout(page, view) });
        if (width === WIDTHS[0]) Object.assign(one, await inBothColours(page, view));
      });
    }
    found.push(one);
  }
  document.getElementById('found').textContent = JSON.stringify(found);
}
all().catch(error => { document.getElementById('found').textContent = `"${error}"`; });
