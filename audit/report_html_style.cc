#include "audit/report_html_style.h"

namespace lethe::audit {
namespace {

// Contrast of every text on its ground is at least 4.5 to 1, of every mark 3 to 1.
constexpr char kStyle[] = R"css(
:root{color-scheme:light dark;
--paper:#fff;--ink:#1c2126;--soft:#566069;--rule:#d9dee3;--wash:#f5f6f7;
--forget:#1f4e79;--evict:#2b8a80;--edit:#b07400;--other:#5f6a75;--before:#b6bfc8;
--good:#1c6b3f;--bad:#a3262a;--badwash:#fcf1f0;
--serif:"Iowan Old Style","Palatino Linotype",Palatino,Charter,"Bitstream Charter",Cambria,Georgia,"Liberation Serif","DejaVu Serif",serif;
--sans:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans","DejaVu Sans",sans-serif;
--mono:ui-monospace,SFMono-Regular,"Cascadia Mono",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{
--paper:#14171a;--ink:#e3e6e9;--soft:#9fa9b3;--rule:#323940;--wash:#1c2024;
--forget:#7fb2e5;--evict:#5cc0b4;--edit:#dfae4c;--other:#98a3ae;--before:#57626d;
--good:#74cd98;--bad:#ff938c;--badwash:#2a1c1c}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 var(--sans);
font-variant-numeric:tabular-nums;overflow-wrap:break-word}
main{max-width:72rem;margin:0 auto;padding:2.5rem clamp(1rem,4vw,3rem) 4rem}
h1,h2,h3{font-family:var(--serif);font-weight:600;line-height:1.2;text-wrap:balance}
h1{font-size:clamp(1.5rem,1.1rem + 2vw,2.3rem);margin:.25rem 0 .6rem;overflow-wrap:anywhere;letter-spacing:-.01em}
h2{font-size:1.35rem;margin:3rem 0 .75rem;padding-top:.9rem;border-top:2px solid var(--ink)}
h3{font-size:1.05rem;margin:1.75rem 0 .5rem}
p{margin:.5rem 0;max-width:44rem}
a{color:var(--forget);text-underline-offset:.15em}
.eyebrow{margin:0;font-size:.8rem;letter-spacing:.09em;text-transform:uppercase;color:var(--soft)}
.soft,figcaption,caption{color:var(--soft)}
small,.small{font-size:.85rem}
code,pre,.mono{font-family:var(--mono);font-size:.84em}
code,.mono{overflow-wrap:anywhere}
td code{font-size:.92em}code.nb{overflow-wrap:normal}
sup{font-size:.72em;line-height:0}
pre{margin:.5rem 0;padding:.75rem 1rem;background:var(--wash);border-left:3px solid var(--rule);
white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.5}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));margin:1.75rem 0 0;border-top:1px solid var(--rule);border-bottom:1px solid var(--rule)}
.figures div{min-width:0;overflow-wrap:anywhere;padding:.8rem 1rem .7rem 0}
.figures dt{font-size:.85rem;color:var(--soft)}
.figures dd{margin:0;font:600 1.75rem/1.25 var(--serif);font-variant-numeric:lining-nums tabular-nums}
.figures .bad{color:var(--bad)}.figures .good{color:var(--good)}
.verdict{max-width:none;margin:.75rem 0;padding:.7rem 1rem;border-left:4px solid var(--good);background:var(--wash)}
.verdict.bad{border-color:var(--bad);background:var(--badwash)}
.facts{display:grid;grid-template-columns:9.5rem 1fr;gap:.45rem 1.25rem;margin:.75rem 0}
.facts dt{color:var(--soft)}.facts dd{margin:0;min-width:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:.75rem 0;font-size:.87rem;line-height:1.4}
caption{text-align:left;padding:.2rem 0 .5rem}
th,td{text-align:left;vertical-align:baseline;padding:.36rem .9rem .36rem 0;border-bottom:1px solid var(--rule)}
th:last-child,td:last-child{padding-right:0}
thead th{white-space:normal;font-weight:600;color:var(--soft);border-bottom:1px solid var(--ink);vertical-align:bottom}
tbody th{font-weight:600}
.n{text-align:right;white-space:nowrap}
th.n+th:not(.n),td.n+td:not(.n){padding-left:.7rem}
tr>.n:first-child{width:1%;min-width:3rem}.nb{white-space:nowrap}
.any{overflow-wrap:anywhere;min-width:0}.n.br{white-space:normal;overflow-wrap:anywhere}
.tag{font-weight:600}.tag.bad{color:var(--bad)}
.to{color:var(--soft);padding:0 .15em}
figure{margin:1.25rem 0 0}
figcaption{font-size:.87rem;max-width:44rem;margin-top:.35rem}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.25rem;margin:0 0 .6rem;padding:0;list-style:none;font-size:.87rem}
.legend i{display:inline-block;width:.72em;height:.72em;margin-right:.45em;background:currentColor}
.legend i.o{border-radius:50%}.legend i.ring{border-radius:50%;background:none;border:2px solid currentColor}
.legend b{font-weight:400;color:var(--ink)}
.c-forget{color:var(--forget)}.c-evict{color:var(--evict)}.c-edit{color:var(--edit)}.c-before{color:var(--before)}
.chart{padding:0 6px 0 52px}.chart.wide{padding-left:100px}
.chart>svg{display:block;width:100%;overflow:visible}
svg text{font:11.5px var(--sans);font-variant-numeric:tabular-nums;fill:var(--soft)}
svg .y{text-anchor:end}svg .p{font-size:8.5px}
.grid{stroke:var(--rule);stroke-width:1}.dash{stroke-dasharray:2 4}.axis,.tick{stroke:var(--soft);stroke-width:1}
.k-forget{fill:var(--forget)}.k-evict{fill:var(--evict)}.k-edit{fill:var(--edit)}
.k-none,.k-shredded,.k-retrain-check,.k-key-handover,.k-restored,.k-tenant-closed{fill:var(--other)}
.s1 circle{fill:var(--forget)}.s1 .span{stroke:var(--forget)}
.s2 circle{fill:var(--paper);stroke:var(--edit);stroke-width:1.6}.s2 .span{stroke:var(--edit)}
.s1,.s2{opacity:.88}.span{stroke-width:2;stroke-linecap:round}
.ba{display:block;width:100%;min-width:3.5rem;margin-top:.2rem}
.ba .b{fill:var(--before)}.ba .a{fill:var(--forget)}
.bars td{width:29%}
.dense{font-size:.82rem}.dense th,.dense td{padding-right:.7rem}
ol.ways{padding-left:1.25rem}ol.ways>li{margin:1rem 0}ol.ways>li::marker{font-weight:600}
footer{margin-top:3rem;padding-top:.9rem;border-top:1px solid var(--rule);color:var(--soft);font-size:.85rem}
@media screen and (max-width:720px){
main{padding-top:1.5rem}
.figures{grid-template-columns:1fr 1fr}
.facts{grid-template-columns:1fr;gap:.1rem}.facts dd{margin-bottom:.6rem}
.w{display:none}.span{stroke-width:1.4}
.chart.wide{padding-left:92px}
.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards tbody,.cards caption{display:block}
.cards tr{display:grid;grid-template-columns:1fr 1fr;gap:.1rem 1rem;padding:.6rem 0;border-bottom:1px solid var(--rule)}
.cards th,.cards td{display:block;border:0;padding:0;text-align:left;white-space:normal;min-width:0;width:auto;overflow-wrap:anywhere}
.cards td.n+td:not(.n){padding-left:0}
.cards tr>.n:first-child{width:auto;min-width:0}
.cards .full{grid-column:1/-1}
.cards [data-l]::before{content:attr(data-l) " ";color:var(--soft);font-weight:400}
.cards td:empty{display:none}
}
@media screen and (min-width:721px) and (max-width:1100px){
.dense thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.dense tbody,.dense caption{display:block}
.dense tr{display:grid;grid-template-columns:repeat(4,1fr);gap:.1rem 1rem;padding:.6rem 0;border-bottom:1px solid var(--rule)}
.dense th,.dense td{display:block;border:0;padding:0;text-align:left;white-space:normal;min-width:0;width:auto;overflow-wrap:anywhere}
.dense td.n+td:not(.n){padding-left:0}
.dense tr>.n:first-child{width:auto;min-width:0}
.dense .full{grid-column:1/-1}
.dense [data-l]::before{content:attr(data-l) " ";color:var(--soft);font-weight:400}
.dense td:empty{display:none}
}
@media print{
@page{size:A4;margin:17mm 16mm 18mm;@bottom-right{content:counter(page) " / " counter(pages);font:8pt Arial,sans-serif;color:#566069}}
:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#4a535b;--rule:#cdd3d9;--wash:#f5f6f7;
--forget:#1f4e79;--evict:#2b8a80;--edit:#b07400;--other:#5f6a75;--before:#b6bfc8;--good:#1c6b3f;--bad:#a3262a;--badwash:#fcf1f0}
body{font-size:9.5pt;line-height:1.45;print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{max-width:none;padding:0}
h1{font-size:19pt}h2{font-size:13.5pt;margin-top:1.9rem}h3{font-size:11pt}
h2,h3,caption,.legend{break-after:avoid}
table{font-size:8pt}th,td{padding:.22rem .55rem .22rem 0}
.dense{font-size:7pt}.dense th,.dense td{padding-right:.4rem}.sec{display:none}
thead{display:table-header-group}
tr,figure,pre,.figures,.verdict{break-inside:avoid}
p,li{orphans:3;widows:3}
a{color:inherit;text-decoration:none}
}
)css";

}  // namespace

absl::string_view ReportStyle() { return absl::string_view(kStyle, sizeof(kStyle) - 1); }

}  // namespace lethe::audit
