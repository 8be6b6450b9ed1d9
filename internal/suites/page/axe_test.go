package page

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// axe is a program that finds what shuts people out. scripts/install-browser installs it.
func axe(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile("testdata/axe/node_modules/axe-core/axe.min.js")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("axe-core is missing: scripts/install-browser installs it")
	}
	return string(program)
}

// axe-core finds nothing to complain of, whatever the page shows: by WCAG 2.2 AA and its own best
// practices.
func TestThePageIsAccessible(t *testing.T) {
	t.Parallel()
	program := axe(t)
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in := start(t, server, prefix, "one")
	in.deny(t, 10, "/", "X-User", "mallory")
	in.deny(t, 10, "/", "X-User", evil)
	in.deny(t, 30, "/login", "X-Address", "198.51.100.7")
	for range 40 {
		in.request("/", "X-User", "alice")
	}
	p := open(t, in)
	// The page's policy lets nobody put a program into it, this test included.
	p.run(t, call(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}), chromedp.Navigate(in.url))
	p.await(t, `document.querySelectorAll('#denied tbody tr').length > 2 && document.querySelector('#blocks tbody tr')`)
	p.run(t, call(runtime.Evaluate, runtime.EvaluateParams{Expression: program}))
	p.look(t, 1360, 900, "light")
	p.audit(t, "wide and light")
	p.run(t, chromedp.Click(chromedp.CSS(`#denied tbody button`)))
	p.await(t, `!document.getElementById('explain').hidden`)
	p.audit(t, "with an explanation")
	p.look(t, 1360, 900, "dark")
	p.audit(t, "wide and dark")
	p.look(t, 390, 844, "dark")
	p.audit(t, "as wide as a phone, and dark")
	p.look(t, 390, 844, "light")
	p.audit(t, "as wide as a phone, and light")
	if wide := eval[int](t, p, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("on a phone it is %d pixels wide", wide)
	}
	p.run(t, chromedp.Click(chromedp.CSS(`#blocks [data-do=ask-block]`)))
	p.await(t, `document.getElementById('dialog').open`)
	p.audit(t, "with a dialog")
}

// audit fails the test for each finding of axe.
func (p *tab) audit(t *testing.T, state string) {
	t.Helper()
	found := must.Get(chromedp.Run(p, chromedp.Evaluate[string](`axe.run(document).then(r => r.passes.length < 10 ? 'it has looked at almost nothing' : r.violations.map(v =>
		v.impact + ': ' + v.id + ': ' + v.help + ' at ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join(' and ')).join('\n'))`, awaitPromise)))(t)
	for finding := range strings.Lines(found) {
		t.Errorf("%s: %s", state, finding)
	}
}

func awaitPromise(p *runtime.EvaluateParams) { yes := true; p.AwaitPromise = &yes }
