#!/usr/bin/env bash
# report_check.sh REPORT.html [FOLDER]: looks at report.html in a real browser, 360, 768 and 1280 pixels
# wide and on A4. Fails when the page is wider than its window, when a text or a drawing sticks out, when
# labels overlap, when a chart is empty, when a heading is missing, when what needs attention does not come
# first, or when the page holds something to load or run. With FOLDER, leaves screenshots and the PDF
# there. Needs Chromium ($CHROMIUM, chromium, chromium-browser or google-chrome), which is no dependency of the
# build.
set -euo pipefail
report=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browser=${CHROMIUM:-}
for candidate in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v "$candidate" || true)
done
if [ -z "$browser" ]; then
  echo "report: not looked at, no Chromium here"
  exit 2
fi
# The page and the one that measures it are files: the flag lets the second look into the first.
look() {
  "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
    --user-data-dir="$work/profile" --allow-file-access-from-files --virtual-time-budget=20000 "$@" \
    2>"$work/browser.log"
}

cat >"$work/measure.html" <<'PAGE'
<!DOCTYPE html><meta charset="utf-8"><title>measure</title><body style="margin:0"><pre id="out"></pre>
<script>
const report = decodeURIComponent(location.hash.slice(1));
const lines = [];
function check(frame, width) {
  const page = frame.contentDocument;
  const root = page.documentElement;
  const fault = (text) => lines.push(`FAULT at ${width}: ${text}`);
  if (root.scrollWidth > width) fault(`the page is ${root.scrollWidth} wide`);
  const name = (e) => `${e.tagName} "${(e.textContent || '').trim().slice(0, 40)}"`;
  const hidden = (e) => e.closest('thead') && getComputedStyle(e.closest('thead')).position === 'absolute';
  for (const e of page.querySelectorAll('main, main *')) {
    if (e.closest('svg') && e.tagName !== 'svg' && e.tagName !== 'text') continue;
    const box = e.getBoundingClientRect();
    if (box.width === 0 || hidden(e)) continue;
    if (box.left < -0.5 || box.right > width + 0.5) fault(`${name(e)} from ${box.left} to ${box.right}`);
  }
  // The labels of one axis do not run into each other.
  for (const chart of page.querySelectorAll('svg[role=img]')) {
    const labels = [...chart.querySelectorAll('text')].map((e) => [e, e.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    for (let i = 0; i < labels.length; ++i) {
      for (let j = 0; j < i; ++j) {
        const [a, b] = [labels[i][1], labels[j][1]];
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) {
          fault(`labels ${name(labels[i][0])} and ${name(labels[j][0])} overlap`);
        }
      }
    }
    const marks = [...chart.querySelectorAll('rect, circle, line.span')].filter((e) => {
      const box = e.getBoundingClientRect();
      return box.height > 0.5 || box.width > 0.5;
    });
    const title = chart.querySelector('title');
    if (marks.length === 0) fault(`empty chart ${title && title.textContent}`);
    if (!title || !title.textContent) fault('a chart without a title');
  }
  if (page.querySelectorAll('h1').length !== 1) fault('not one h1');
  for (const section of page.querySelectorAll('section')) {
    if (!section.querySelector('h2')) fault('a section without a heading');
  }
  const first = page.querySelector('section');
  if (!first || first.id !== 'attention') fault('what needs attention does not come first');
  if (page.querySelector('script, link, img, iframe, object, embed')) fault('something is loaded');
  lines.push(`${width}: ${page.querySelectorAll('svg[role=img]').length} charts, ` +
             `${root.scrollWidth} x ${root.scrollHeight}`);
}
const widths = [360, 768, 1280];
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `border:0;width:${width}px;height:900px`;
  frame.onload = () => {
    try { check(frame, width); } catch (error) { lines.push(`FAULT at ${width}: ${error}`); }
    if (--left === 0) document.getElementById('out').textContent = lines.join('\n') + '\nmeasured';
  };
  frame.src = report;
  document.body.appendChild(frame);
}
</script>
PAGE
# Only "%" and "#" need care in the fragment.
address="file://$(sed 's/%/%25/g; s/#/%23/g; s/?/%3F/g' <<<"$report")"
look --window-size=1400,1000 --dump-dom "file://$work/measure.html#$address" >"$work/dom.html"
measured=$(sed -n '/<pre id="out">/,/measured/p' "$work/dom.html" | sed 's/.*<pre id="out">//; s/<\/pre>.*//')
grep -q '^measured$' <<<"$measured" || {
  echo "report: the browser did not measure the page"
  tail -5 "$work/browser.log"
  exit 1
}
status=0
if grep '^FAULT' <<<"$measured"; then status=1; fi

look --no-pdf-header-footer --print-to-pdf="$work/report.pdf" "$address" >/dev/null
head -c 5 "$work/report.pdf" | grep -q '%PDF-' || { echo "report: no PDF"; status=1; }

if [ $# -gt 1 ]; then
  mkdir -p "$2"
  cp "$work/report.pdf" "$2/report.pdf"
  look --window-size=1280,6000 --screenshot="$2/report-1280.png" "$address" >/dev/null
  # The browser has no window as narrow as a phone: a frame in a wider one.
  printf '<body style="margin:0"><iframe src="%s" style="border:0;width:360px;height:9000px"></iframe>' \
    "$address" >"$work/phone.html"
  look --window-size=500,9000 --screenshot="$2/report-360.png" "file://$work/phone.html" >/dev/null
fi
[ "$status" -ne 0 ] || echo "report: $(grep -v '^measured$' <<<"$measured" | paste -sd ';' | sed 's/;/; /g')"
exit "$status"
