package ui

// reportPage is the page of launch check --html: one file, no scripts, nothing
// from elsewhere. Colours follow the reader's system; each status is a letter,
// too.
const reportPage = pageTop + checkBody + benchBody + ownBody + pageEnd

// pageTop is what all pages begin with: their looks, how it went, and what to
// look at.
const pageTop = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>launch: {{.Sentence}}</title>
<style>
:root { color-scheme: light dark; --bg:#fff; --ink:#1a202c; --soft:#5a6577; --line:#d5dbe4; --box:#f6f8fb;
  --ok:#dff0d8; --okink:#2d5a17; --warn:#fdf0c8; --warnink:#7a5200; --fail:#c53030; --failink:#fff; --skip:#eceff3; --skipink:#5a6577; }
@media (prefers-color-scheme: dark) {
  :root { --bg:#14181f; --ink:#e6eaf0; --soft:#9aa5b5; --line:#323a47; --box:#1c222c;
    --ok:#1d3a1f; --okink:#a6dba0; --warn:#4d3b0a; --warnink:#ffd877; --fail:#d64545; --failink:#fff; --skip:#272e39; --skipink:#9aa5b5; }
}
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem; max-width: 78rem; background: var(--bg); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.soft, figcaption { color: var(--soft) } code, pre, .id { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em }
.verdict { border-left: .4rem solid var(--okink); padding: .2rem 0 .2rem 1rem } .verdict.bad { border-color: var(--fail) }
.scroll { overflow: auto; max-height: 75vh; border: 1px solid var(--line); border-radius: .4rem }
table { border-collapse: separate; border-spacing: 0 }
th, td { padding: .15rem .35rem; text-align: center; border-bottom: 1px solid var(--line) }
thead th { position: sticky; top: 0; background: var(--bg); vertical-align: bottom; z-index: 1 }
thead th span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; font-weight: 500 }
tbody th, thead th:first-child { position: sticky; left: 0; background: var(--bg); text-align: left; white-space: nowrap; z-index: 1; font-weight: 500 }
thead th:first-child { z-index: 2 }
td { min-width: 1.9em; font-weight: 600 }
.o { background: var(--ok); color: var(--okink) } .w { background: var(--warn); color: var(--warnink) }
.f { background: var(--fail); color: var(--failink) } .s { background: var(--skip); color: var(--skipink); font-weight: 400 }
.none { color: var(--soft); font-weight: 400 }
.badge { display: inline-block; min-width: 3.2em; text-align: center; border-radius: .25rem; padding: 0 .4em; font-weight: 600 }
article { border: 1px solid var(--line); border-radius: .4rem; background: var(--box); padding: .7rem 1rem; margin: .6rem 0 }
article p { margin: .3rem 0; overflow-wrap: anywhere } dl { margin: .4rem 0 0; display: grid; grid-template-columns: 5.5rem 1fr; gap: .2rem .6rem } dt { color: var(--soft) } dd { margin: 0 }
pre { margin: 0; padding: .4rem .6rem; background: var(--bg); border: 1px solid var(--line); border-radius: .3rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere }
pre.facts { white-space: pre; max-height: 60vh } details { margin-top: .4rem } summary { cursor: pointer; color: var(--soft) }
svg { max-width: 100%; height: auto } svg text { fill: var(--ink); font: 12px system-ui, sans-serif } svg .small { font-size: 11px; fill: var(--fail); stroke: var(--bg); stroke-width: 4px; paint-order: stroke }
.edge { stroke: var(--soft); stroke-width: 1; opacity: .45; fill: none } .edge.bad { stroke: var(--fail); stroke-width: 2.5; opacity: 1 }
.node { fill: var(--box); stroke: var(--soft); stroke-width: 1.5 } .node.bad { fill: var(--fail); stroke: var(--fail) }
.heat0, .heat1, .heat2, .heat3, .heat4, .heat5 { fill: var(--fail) } .heat0 + text, .heat1 + text, .heat2 + text, .heat3 + text, .heat4 + text, .heat5 + text { fill: var(--failink) }
.heat6, .heat7 { fill: var(--warnink) } .heat6 + text, .heat7 + text { fill: var(--bg) } .heat8 { fill: var(--warn) } .heat9, .heat10 { fill: var(--ok) } .slow { stroke: var(--fail); stroke-width: 2 }
footer { margin-top: 2.5rem; color: var(--soft) }
</style></head><body>
<header class="verdict{{if .Bad}} bad{{end}}"><h1>{{.Sentence}}</h1>
<div class="soft">{{.Summary}}{{if .Job}} · {{.Job}}{{end}}</div></header>
{{if .Findings}}<h2>What to look at</h2>
{{range .Findings}}<article><p><span class="badge {{.Letter}}">{{.Status}}</span> <span class="id">{{.ID}}</span>{{if .Title}} <span class="soft">{{.Title}}</span>{{end}}</p>
<p>{{.What}}</p>{{if or .Breaks .Fix}}
<dl>{{if .Breaks}}<dt>so what</dt><dd>{{.Breaks}}</dd>{{end}}{{if .Fix}}<dt>fix</dt><dd><pre>{{.Fix}}</pre></dd>{{end}}</dl>{{end}}
{{if .Seen}}<details><summary>evidence ({{len .Seen}})</summary><dl>{{range .Seen}}<dt></dt><dd><code>{{.Where}}</code>: {{.What}}</dd>{{end}}</dl></details>{{end}}</article>
{{end}}{{end}}
`

// checkBody is the matrix of nodes and checks, and who called whom.
const checkBody = `<h2>Nodes and checks</h2>
<div class="scroll"><table><thead><tr><th>node</th><th><span>fit</span></th>{{range .Columns}}<th title="{{.Title}}"><span>{{.ID}}</span></th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr><th title="{{.Who}}">{{.Name}}</th><td class="{{if .Unfit}}f{{else}}o{{end}}" title="{{.Name}}: {{if .Unfit}}unfit{{else}}fit{{end}}">{{if .Unfit}}F{{else}}o{{end}}</td>{{range .Cells}}<td class="{{.Letter}}" title="{{.Tip}}">{{.Sign}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
<p class="soft"><span class="badge o">o</span> ok <span class="badge w">w</span> look at it <span class="badge f">F</span> failed <span class="badge s">s</span> could not tell, or left out · empty: not asked there{{if .Unasked}} · not shown, since no node could make them: {{.Unasked}}{{end}}</p>
{{with .Picture}}<h2>Who called whom</h2><figure style="margin:0"><svg viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" role="img" aria-label="{{.Says}}">
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" opacity=".5"/></marker><marker id="b" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="12" markerHeight="12" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" style="fill:var(--fail)"/></marker></defs>
{{range .Edges}}<path class="edge{{if .Bad}} bad{{end}}" d="M{{.X1}} {{.Y1}}L{{.X2}} {{.Y2}}" marker-end="url(#{{if .Bad}}b{{else}}a{{end}})"><title>{{.Tip}}</title></path>
{{end}}{{range .Nodes}}<circle class="node{{if .Bad}} bad{{end}}" cx="{{.X}}" cy="{{.Y}}" r="9"><title>{{.Tip}}</title></circle><text x="{{.TX}}" y="{{.TY}}" text-anchor="{{.Anchor}}">{{.Name}}</text>
{{end}}{{range .Edges}}{{if .Bad}}<text class="small" x="{{.LX}}" y="{{.LY}}" text-anchor="middle">{{.Bad}}</text>{{end}}{{end}}
</svg><figcaption>{{.Says}}</figcaption></figure>{{end}}
`

// ownBody is this node.
const ownBody = `<h2>This node</h2>
<details{{if not .Many}} open{{end}}><summary>all its checks</summary><table>{{range .Own}}<tr><td class="{{.Letter}}">{{.Status}}</td><th class="id">{{.ID}}</th><td style="text-align:left;font-weight:400">{{.What}}</td></tr>{{end}}</table></details>
<details><summary>what it has, as launch fabric prints it</summary><pre class="facts">{{.Facts}}</pre></details>
`

const pageEnd = `<footer>launch {{.Version}} · {{.At}} · {{.Host}}</footer>
</body></html>
`
