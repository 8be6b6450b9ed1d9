package page

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(redistest.Main(m))
}

// patience is how long a test waits for something that must happen, on the busiest machine. A test
// waits for many such things, in one browser.
const patience = 2 * time.Minute

// chromium finds the browser's program. Without it the test skips, or fails in a pipeline.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" || *pictures != "" {
		t.Fatal("chromium is missing: scripts/install-browser installs it")
	}
	t.Skip("chromium is missing")
	return ""
}

// tab is a page in a browser of its own, and what went wrong in it.
type tab struct {
	context.Context
	origin string

	mu     sync.Mutex
	faults []string // Guarded by mu.
}

// open starts a browser and loads the page of an instance, as a logged-in operator.
func open(t *testing.T, in *instance) *tab {
	t.Helper()
	return openAs(t, in.url, "olga", password, watching)
}

// watching is an element of the page of inspect that is there when the store has answered.
const watching = "#store-state.ok"

// openAs is open for any page. It waits for an element.
func openAs(t *testing.T, at, user, password, element string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // it loads this test's own page only, and containers have no user namespaces
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	u := must.Get(url.Parse(at))(t)
	p := &tab{Context: ctx, origin: u.Scheme + "://" + u.Host + "/"}
	must.OK(t, chromedp.Listen(ctx, p.note))
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	p.run(t, call(network.Enable, network.EnableParams{}), call(runtime.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}),
		call(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": login}}),
		chromedp.Navigate(at), chromedp.WaitVisible(chromedp.CSS(element)))
	return p
}

// note keeps what must not be: errors on the console, violations of the policy, requests elsewhere.
func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			p.faults = append(p.faults, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.faults = append(p.faults, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.origin) {
			p.faults = append(p.faults, "a request to elsewhere: "+e.Request.URL)
		}
	}
}

// check fails the test if something went wrong, except what holds one of the words.
func (p *tab) check(t *testing.T, except ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		if !slices.ContainsFunc(except, func(word string) bool { return strings.Contains(fault, word) }) {
			t.Error(fault)
		}
	}
}

func (p *tab) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	must.OK(t, chromedp.Do(p, actions...))
}

// call is an action that calls a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// eval returns the value of an expression.
func eval[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	return must.Get(chromedp.Run(p, chromedp.Evaluate[T](expression)))(t)
}

// await waits until an expression is true. While the browser goes to another page, it evaluates nothing.
func (p *tab) await(t *testing.T, expression string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		is, err := chromedp.Run(p, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && is {
			return
		}
		if time.Since(began) > patience {
			must.OK(t, err)
			t.Fatalf("after %v not true: %s\nthe page says:\n%s", patience, expression, eval[string](t, p, "document.body.innerText"))
		}
	}
}

// look sets the width of the window and the color scheme.
func (p *tab) look(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	p.run(t,
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}
