package page

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// startSaas builds and starts examples/saas in memory, and stops it when the test ends.
func startSaas(t *testing.T) (at, password string) {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, filepath.Join(documents.Root, "examples/saas"), "."))
	running := program.Start(t, program.Command(filepath.Join(dir, "saas")))
	at = running.URL("The page:")
	login := regexp.MustCompile(`billing, password (\S+)`)
	password = login.FindStringSubmatch(running.Line(login))[1]
	running.Line(regexp.MustCompile("^Ctrl-C"))
	return at, password
}

// openSaas loads the page of examples/saas in a browser.
func openSaas(t *testing.T, at, password string) *tab {
	t.Helper()
	return openAs(t, at+"/console/", "billing", password, "h1")
}

// reports asks the example for reports, as a customer, until it has so many.
func reports(t *testing.T, at, apiKey string, n int) {
	t.Helper()
	for began := time.Now(); n > 0; {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/v1/report", http.NoBody))(t)
		r.Header.Set("X-API-Key", apiKey)
		res := must.Get(http.DefaultClient.Do(r))(t)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			n--
			continue
		}
		if time.Since(began) > 2*patience {
			t.Fatalf("%v later %d reports are missing: %s", 2*patience, n, res.Status)
		}
		time.Sleep(50 * time.Millisecond) // there is a limit per second, too
	}
}

// credit tops a tenant up, as whoever bills.
func credit(t *testing.T, at, password, tenant, operation string, units int) {
	t.Helper()
	form := url.Values{"operation": {operation}, "units": {strconv.Itoa(units)}}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/console/tenants/"+tenant+"/top-up", strings.NewReader(form.Encode())))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("billing", password)
	res := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("a top-up: %s", res.Status)
	}
}

// Whoever bills tops up and changes plans by keyboard, within the page's policy.
func TestSaasByKeyboard(t *testing.T) {
	t.Parallel()
	at, password := startSaas(t)
	reports(t, at, "acme-key", 20)
	p := openSaas(t, at, password)
	p.run(t, chromedp.Focus(chromedp.CSS(`a[href$="/acme"]`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('h1')?.innerText === 'Acme Rockets'`)
	p.run(t, chromedp.Focus(chromedp.CSS(`#units`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('[role=status]')?.innerText === 'The units are credited.'`)
	p.await(t, `document.querySelector('dl').innerText.includes('100, ')`)
	p.run(t, chromedp.Focus(chromedp.CSS(`#plan`)), chromedp.KeyEvent("t"), chromedp.Focus(chromedp.CSS(`#plan ~ button`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('[role=status]')?.innerText === 'The plan is changed.'`)
	p.await(t, `document.querySelector('dl').innerText.includes('team')`)
	p.check(t)
}

// axe-core finds nothing to complain of on the pages of examples/saas.
func TestSaasIsAccessible(t *testing.T) {
	t.Parallel()
	program := axe(t)
	at, password := startSaas(t)
	reports(t, at, "acme-key", 19)
	reports(t, at, "globex-key", 1120)
	reports(t, at, "initech-key", 340)
	credit(t, at, password, "globex", "invoice-2026-1141", 100)
	p := openSaas(t, at, password)
	// The page's policy lets nobody put a program into it, this test included.
	p.run(t, call(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}))
	// The book writes what was used within a second.
	for began := time.Now(); !eval[bool](t, p, `document.querySelector('table').innerText.includes('1,12')`); time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%v later the page does not show what was used", patience)
		}
		p.run(t, chromedp.Navigate(at+"/console/"), chromedp.WaitVisible(chromedp.CSS("h1")))
	}
	for _, path := range []string{"/console/", "/console/tenants/globex", "/console/tenants/globex?done=plan"} {
		p.run(t, chromedp.Navigate(at+path), chromedp.WaitVisible(chromedp.CSS("h1")), call(runtime.Evaluate, runtime.EvaluateParams{Expression: program}))
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1100, 390} {
				p.look(t, width, 800, scheme)
				p.audit(t, path+" "+scheme)
				p.shoot(t, fmt.Sprint("saas", strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path), "-", scheme, "-", width))
			}
		}
		if wide := eval[int](t, p, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%s: on a phone it is %d pixels wide", path, wide)
		}
	}
	p.check(t)
}

// shoot takes a picture of the page, if -shots says where to.
func (p *tab) shoot(t *testing.T, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	picture := must.Get(chromedp.Run(p, chromedp.FullScreenshot(100)))(t)
	must.OK(t, os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o600))
}
