package page

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// within waits until a user's request is answered with a status. That takes less than a second, and
// longer on a busy machine.
func within(t *testing.T, in *instance, user string, status int) {
	t.Helper()
	for began := time.Now(); in.request("/", "X-User", user) != status; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%v later, the request of %s is not answered with %d", patience, user, status)
		}
	}
}

// An operator looks a client up, blocks it, sees it blocked on another instance, and unblocks it, without
// a mouse.
func TestAnOperatorBlocksAClientByKeyboard(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	one, other := start(t, server, prefix, "one"), start(t, server, prefix, "other")
	for range 10 {
		other.request("/", "X-User", "mallory")
	}
	p := open(t, one)
	p.run(t, chromedp.KeyEvent("/"))
	p.await(t, `document.activeElement.id === 'query'`)
	p.run(t, chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ''`)) // the protocol types the slash, too
	p.run(t, chromedp.KeyEvent("mallory"), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('#explain:not([hidden]) .verdict')?.innerText.includes('Allowed now')`)
	if focus := eval[string](t, p, `document.activeElement.id`); focus != "explain-title" {
		t.Errorf("the focus is on %q, not on what was found", focus)
	}

	// What it says goes away after some seconds.
	p.run(t, chromedp.Evaluate[chromedp.Void](`window.said = []; new MutationObserver(() => said.push(document.getElementById('status').textContent))
		.observe(document.getElementById('status'), { childList: true, characterData: true, subtree: true })`))
	p.run(t, chromedp.Focus(chromedp.CSS(`#explain [data-do=ask-block]`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.getElementById('dialog').open && document.activeElement.id === 'dialog-ok'`)
	p.run(t, chromedp.KeyEvent(kb.Enter))
	p.await(t, `!document.getElementById('dialog').open`)
	within(t, other, "mallory", http.StatusTooManyRequests)
	within(t, other, "alice", http.StatusOK)
	p.await(t, `document.querySelector('#explain .verdict').innerText.includes('Denied by per-user. Blocked for another')`)
	p.await(t, `document.querySelector('#blocks tbody').innerText.includes('mallory')`)
	if said := eval[[]string](t, p, `said`); !slices.Contains(said, "Blocked: header.x-user:mallory under per-user") {
		t.Errorf("those who listen hear %q", said)
	}

	p.run(t, chromedp.Focus(chromedp.CSS(`#blocks [data-do=ask-unblock]`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.getElementById('dialog').open`)
	p.run(t, chromedp.KeyEvent(kb.Escape))
	p.await(t, `!document.getElementById('dialog').open && document.activeElement.dataset.do === 'ask-unblock'`)
	within(t, other, "mallory", http.StatusTooManyRequests) // it was canceled
	p.run(t, chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.getElementById('dialog').open`)
	p.run(t, chromedp.KeyEvent(kb.Enter))
	p.await(t, `!document.getElementById('dialog').open`)
	within(t, other, "mallory", http.StatusOK)
	p.await(t, `document.querySelector('#blocks-list').hidden`)
	p.check(t)
}

// What is live asks again for a client while the user's own question waits: the focus follows the answer that is shown.
func TestTheFocusFollowsTheAnswerThatIsShown(t *testing.T) {
	t.Parallel()
	in := start(t, redistest.Shared(t), redistest.Prefix(t), "one")
	in.request("/", "X-User", "mallory")
	p := open(t, in)
	p.run(t, chromedp.Evaluate[chromedp.Void](`{
		const send = window.fetch;
		let asked = 0;
		window.fetch = async (url, options) => {
			const answer = await send(url, options);
			if (String(url).endsWith('explain') && asked++ === 0) {
				await new Promise((go) => { window.answer = go; });
				setTimeout(() => { window.seen = true; }, 100); // when the page has read it
			}
			return answer;
		};
	}`))
	p.run(t, chromedp.Focus(chromedp.CSS(`#query`)), chromedp.KeyEvent("mallory"), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('#explain:not([hidden]) .verdict')?.innerText.includes('Allowed now')`) // the second answer
	check.Equal(t, "has the focus", eval[string](t, p, `document.activeElement.id`), "explain-title")
	p.run(t, chromedp.Evaluate[chromedp.Void](`document.getElementById('query').focus(); window.answer()`)) // it came too late for the user
	p.await(t, `window.seen`)
	check.Equal(t, "has the focus after a late answer", eval[string](t, p, `document.activeElement.id`), "query")
	p.check(t)
}

// The dialog of "Block a client" begins with the client that is explained, and takes what its key is made of.
func TestTheDialogKnowsWhoIsMeant(t *testing.T) {
	t.Parallel()
	in := start(t, redistest.Shared(t), redistest.Prefix(t), "one")
	in.request("/", "X-User", "mallory")
	p := open(t, in)
	p.run(t, chromedp.Focus(chromedp.CSS(`#query`)), chromedp.KeyEvent("mallory"), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.querySelector('#explain:not([hidden]) .verdict')?.innerText.includes('Allowed now')`)
	p.run(t, chromedp.Focus(chromedp.CSS(`#blocks [data-do=ask-block]`)), chromedp.KeyEvent(kb.Enter))
	p.await(t, `document.getElementById('dialog').open && document.getElementById('dialog-key').value === 'header.x-user:mallory'`)
	p.run(t, chromedp.KeyEvent("user:mallory"), chromedp.KeyEvent(kb.Enter)) // what was there is selected, so this replaces it
	p.await(t, `document.getElementById('dialog-error').innerText.includes('counts by header.x-user')`)
	p.run(t, chromedp.Evaluate[chromedp.Void](`document.getElementById('dialog-key').select()`), chromedp.KeyEvent("mallory"), chromedp.KeyEvent(kb.Enter))
	p.await(t, `!document.getElementById('dialog').open`)
	within(t, in, "mallory", http.StatusTooManyRequests)
	p.await(t, `document.querySelector('#blocks tbody').innerText.includes('mallory')`)
	p.check(t, "422 (Unprocessable Entity)")
}

// Keys and labels that are HTML are shown as they are.
func TestKeysAndLabelsAreText(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in := start(t, server, prefix, "one")
	in.deny(t, 10, "/", "X-User", evil)
	p := open(t, in)
	p.await(t, `document.querySelector('#denied tbody')?.innerText.includes('<img src=x onerror=alert(1)>')`)
	p.run(t, chromedp.Click(chromedp.CSS(`#denied tbody button`)))
	p.await(t, `document.querySelector('#explain:not([hidden]) h3')?.innerText.includes('<img src=x')`)
	check.Equal(t, "elements came from a key", eval[int](t, p, `document.querySelectorAll('main img, main script, main [onerror]').length`), 0)
	p.check(t)
}

// The page polls where it can't have a stream, here behind a handler that collects whole responses.
func TestAPageThatCanNotStreamPolls(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in := start(t, server, prefix, "one")
	web := httptest.NewServer(http.TimeoutHandler(in.app, patience, "late"))
	t.Cleanup(web.Close)
	in.url = web.URL + "/ops/limits/"
	p := open(t, in)
	p.await(t, `document.getElementById('live-state').textContent === 'Each 5 s'`)
	in.deny(t, 10, "/", "X-User", "eve")
	p.await(t, `document.querySelector('#denied tbody').innerText.includes('eve')`)
	p.check(t, "501") // the browser's own line about the stream
}

// Nobody has to guess that the page has lost its server.
func TestAPageThatHasLostItsServerSaysSo(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in := start(t, server, prefix, "one")
	p := open(t, in)
	p.await(t, `document.getElementById('live-state').textContent === 'Live'`)
	in.end()
	p.await(t, `!document.getElementById('alarm').hidden && document.getElementById('alarm').textContent.includes('What you see is old')`)
}

// What the page says of the store agrees with the events below it.
func TestThePageTellsSlownessFromOutages(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in := start(t, server, prefix, "web-1")
	p := open(t, in)
	hear := func(class store.Class, errors int64) {
		in.store.Registry().Report(core.Event{Kind: store.EventOutageBegan, Class: class})
		in.store.Registry().Report(core.Event{Kind: store.EventOutageEnded, Class: class, Count: errors, Duration: 150 * time.Second})
	}
	says := func(text, events string) {
		t.Helper()
		p.await(t, `document.getElementById('store-text').textContent.includes('`+text+`') && document.getElementById('events').textContent.includes('`+events+`')`)
	}
	p.await(t, `document.getElementById('store-text').textContent.startsWith('No outage in the ') && document.getElementById('store-help').hidden`)
	for range 126 {
		hear(store.ClassTimeout, 1)
	}
	says(" that web-1 has watched. Slow 126 times, last ", "slow, timeout, 126 times")
	hear(store.ClassReadOnly, 1)
	p.await(t, `/^1 outage in the .* that web-1 has watched: it ended .*, after 2 min 30 s\. Slow 126 times/.test(document.getElementById('store-text').textContent)`)
	check.Equal(t, "where the help leads", eval[string](t, p, `document.querySelector('#store-help:not([hidden]) a').href`),
		"https://github.com/weblimit/weblimit/blob/main/docs/run/operations.md#weblimitfallback")
	for _, section := range []string{"WeblimitOutage", "WeblimitFallback"} {
		check.Contains(t, "docs/run/operations.md", documents.Read(t, "run/operations.md"), "\n### "+section+"\n")
	}
	p.check(t)
}

// How the other instances see their stores is on the page, and what is wrong is announced.
func TestThePageShowsInstancesThatAreIll(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	in, ill, gone := start(t, server, prefix, "web-1"), start(t, server, prefix, "web-2"), start(t, server, prefix, "web-3")
	p := open(t, in)
	p.await(t, `document.querySelectorAll('#instances .chip.ok').length === 3`)
	ill.heavy.StoreEvent(core.Event{Kind: store.EventOutageBegan, Class: "timeout", Node: evil})
	ill.heavy.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Class: "timeout", Node: evil})
	gone.heavy.Close()
	p.await(t, `document.getElementById('alarm').textContent.includes('1 other instance decides without the store')`)
	p.await(t, `document.querySelector('#instances .chip.bad')?.textContent === 'store out'`)
	p.await(t, `document.getElementById('instances').textContent.includes('No answer for') && document.getElementById('instances').textContent.includes('onerror=alert(1)> is not asked')`)
	p.await(t, `document.getElementById('instances').textContent.includes('web-3silent')`)
	p.check(t)
	if *shots != "" {
		picture := must.Get(chromedp.Run(p, chromedp.FullScreenshot(100)))(t)
		must.OK(t, os.WriteFile(filepath.Join(*shots, "ill.png"), picture, 0o600))
	}
	ill.heavy.StoreEvent(core.Event{Kind: store.EventBreakerClosed, Node: evil})
	ill.heavy.StoreEvent(core.Event{Kind: store.EventOutageEnded})
	p.await(t, `document.getElementById('alarm').hidden && document.getElementById('instances').textContent.includes('Last outage: ')`)
}

// A region that home does not answer is announced, and what it has leased is shown.
func TestThePageShowsRegions(t *testing.T) {
	t.Parallel()
	in := start(t, redistest.Shared(t), redistest.Prefix(t), "web-1")
	p := open(t, in)
	p.await(t, `document.querySelectorAll('#instances .chip.ok').length === 1 && document.getElementById('regions').hidden`)
	var away atomic.Bool
	began := time.Now()
	regional.Add(in.store.Registry(), func() regional.Stats {
		s := regional.Stats{
			Region: evil, Keys: 1200, Home: regional.Home{Trip: 80 * time.Millisecond},
			Limits: map[string]regional.Counts{"login": {Leased: 4200, Spent: 4100, Messages: 12, Waited: 3, Early: 2, Failed: 5, Lost: 6, Skewed: 7}},
		}
		if away.Load() {
			s.Home.Away, s.Home.Class = began, store.ClassTimeout
		}
		return s
	})
	p.await(t, `document.querySelector('#regions .chip.ok')?.textContent === 'home answers' && document.getElementById('regions').textContent.includes('It takes 80 ms. 1,200 keys above the floor.')`)
	p.await(t, `[...document.querySelectorAll('#leased tbody td.number')].map((e) => e.textContent).join(' ') === '4,200 4,100 12 3 2'`)
	p.await(t, `document.querySelector('#leased tbody p').textContent === '5 leases not answered, 6 units lost on their way, 7 units went back: the clocks of region and home differ'`)
	p.await(t, `document.getElementById('alarm').hidden`)
	p.check(t)
	away.Store(true)
	p.await(t, `document.querySelector('#regions .chip.bad')?.textContent === 'home away' && document.getElementById('regions').textContent.includes(': timeout. 1,200 keys')`)
	p.await(t, `document.getElementById('alarm').textContent.includes('Home does not answer the region')`)
	p.check(t)
}

var (
	shots = flag.String("shots", "", "the folder for screenshots")
	warm  = flag.Duration("warm", 20*time.Second, "how long requests are sent before the first screenshot")
)

func TestScreenshots(t *testing.T) {
	if *shots == "" {
		t.Skip("-shots says where to")
	}
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	one, other := start(t, server, prefix, "web-1"), start(t, server, prefix, "web-2")
	stop := load(one, other)
	defer stop()
	time.Sleep(*warm) // for a picture of numbers that have grown
	p := open(t, one)
	p.await(t, `document.querySelectorAll('#denied tbody tr').length > 2`)
	shot := func(name string) {
		time.Sleep(2500 * time.Millisecond) // for what moves on the page to come to rest
		picture := must.Get(chromedp.Run(p, chromedp.FullScreenshot(100)))(t)
		must.OK(t, os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o600))
	}
	p.look(t, 1360, 900, "light")
	shot("wide-light")
	p.look(t, 1240, 900, "light")
	p.run(t, chromedp.Click(chromedp.CSS(`#denied tbody tr:nth-child(2) button`)))
	shot("docs")
	p.run(t, chromedp.Click(chromedp.CSS(`[data-do=close]`)))
	p.look(t, 1360, 900, "light")
	p.run(t, chromedp.Click(chromedp.CSS(`#denied tbody button`)))
	shot("wide-light-explained")
	p.look(t, 1360, 900, "dark")
	shot("wide-dark-explained")
	p.look(t, 390, 844, "dark")
	shot("phone-dark-explained")
	p.run(t, chromedp.Click(chromedp.CSS(`[data-do=close]`)))
	shot("phone-dark")
	p.look(t, 390, 844, "light")
	shot("phone-light")
	p.run(t, chromedp.Click(chromedp.CSS(`[data-do=ask-block]`)))
	shot("phone-light-dialog")
	p.check(t)
}
