package stdhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// watched has a handler serve a request as an adapter does, and returns the outcome
// that limits see of it. around is what stands around the limiter, or nil.
func watched(t *testing.T, r *http.Request, handler http.HandlerFunc, around func(http.Handler) http.Handler) core.Outcome {
	t.Helper()
	var seen atomic.Pointer[core.Outcome]
	limiter := adapter.New(core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(9).By(keyfuncs.Everyone()).Named("watched").RefundOn(func(o core.Outcome) bool {
			if seen.Swap(&o) != nil {
				t.Error("there are two outcomes")
			}
			return false
		}),
	}), "test")
	var limited http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, r := Decide(limiter, Of(r), r, w.Header())
		Answer(limiter, w, r, d, handler, nil)
	})
	if around != nil {
		limited = around(limited)
	}
	func() {
		defer func() { _ = recover() }()
		limited.ServeHTTP(httptest.NewRecorder(), r)
	}()
	o := seen.Load()
	if o == nil {
		t.Fatal("there is no outcome")
	}
	return *o
}

func post(body io.Reader) *http.Request { return httptest.NewRequest("POST", "/", body) }

func readAll(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// reader is a body that does as it likes.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestWhoEndsARequest(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	fails := func() io.Reader { return reader(func([]byte) (int, error) { return 0, errors.New("reset by peer") }) }
	for name, c := range map[string]struct {
		request  *http.Request
		handler  http.HandlerFunc
		canceled bool
		timedOut bool
		status   int
	}{
		"nobody":                      {post(strings.NewReader("body")), readAll, false, false, 200},
		"its client":                  {post(nil).WithContext(gone), readAll, true, false, 200},
		"its deadline":                {post(nil).WithContext(expired), readAll, false, true, 200},
		"a body that can't be read":   {post(fails()), readAll, true, false, 500},
		"a body that nobody reads":    {post(fails()), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false, false, 500},
		"http.ErrAbortHandler":        {post(nil), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, false, 500},
		"a panic":                     {post(nil), func(http.ResponseWriter, *http.Request) { panic("on purpose") }, false, false, 500},
		"an interim response":         {post(nil), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(503) }, false, false, 503},
		"a body that is over":         {post(strings.NewReader("b")), func(w http.ResponseWriter, r *http.Request) { readAll(w, r); readAll(w, r) }, false, false, 200},
		"a body of an app's own":      {post(fails()), func(w http.ResponseWriter, r *http.Request) { r.Body = http.NoBody; readAll(w, r) }, false, false, 200},
		"a context of an app's own":   {post(nil), func(_ http.ResponseWriter, r *http.Request) { *r = *r.WithContext(gone) }, false, false, 200},
		"a body that an app closed":   {post(fails()), func(w http.ResponseWriter, r *http.Request) { _ = r.Body.Close(); readAll(w, r) }, false, false, 500},
		"499":                         {post(nil), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, true, false, 499},
		"a write of too much":         {post(nil), func(w http.ResponseWriter, _ *http.Request) { failing(w, http.ErrContentLength) }, false, false, 200},
		"a write where there is none": {post(nil), func(w http.ResponseWriter, _ *http.Request) { failing(w, http.ErrBodyNotAllowed) }, false, false, 200},
		"a write to who is gone":      {post(nil), func(w http.ResponseWriter, _ *http.Request) { failing(w, errors.New("broken pipe")) }, true, false, 200},
		"a time-out handler":          {post(nil), func(w http.ResponseWriter, _ *http.Request) { failing(w, http.ErrHandlerTimeout) }, false, true, 503},
	} {
		o := watched(t, c.request, c.handler, failingWriters)
		if o.Canceled != c.canceled || o.TimedOut != c.timedOut || o.Status != c.status || o.Waited >= time.Second {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// failing writes, and has that fail.
func failing(w http.ResponseWriter, with error) {
	w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().(*failingWriter).err = with
	_, _ = io.WriteString(w, "hello")
}

type failingWriter struct {
	http.ResponseWriter
	err error
}

func (w *failingWriter) Write([]byte) (int, error) { return 0, w.err }

func failingWriters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&failingWriter{ResponseWriter: w}, r) })
}

// A handler that is kept waiting is not the server's failure, wherever it waits.
func TestClientsThatKeepTheHandlerWaiting(t *testing.T) {
	t.Parallel()
	trickles := func(pause time.Duration, times int) io.Reader {
		return reader(func([]byte) (int, error) {
			time.Sleep(pause)
			if times--; times < 0 {
				return 0, io.EOF
			}
			return 1, nil
		})
	}
	works := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			readAll(w, r)
			time.Sleep(d)
		}
	}
	timeOut := func(next http.Handler) http.HandlerFunc {
		return http.TimeoutHandler(next, 10*time.Second, "").ServeHTTP
	}
	soon := func(next http.Handler) http.HandlerFunc {
		return http.TimeoutHandler(next, 500*time.Millisecond, "").ServeHTTP
	}
	givesUp := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
		defer cancel()
		readAll(w, r)
		<-ctx.Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for name, c := range map[string]struct {
		body     io.Reader
		handler  http.HandlerFunc
		refunded bool
	}{
		"a slow server":                         {strings.NewReader("body"), timeOut(works(time.Minute)), true},
		"a slow server, and a client nearly":    {trickles(100*time.Millisecond, 5), timeOut(works(time.Minute)), true},
		"a body that trickles in":               {trickles(time.Second, 3), timeOut(works(8 * time.Second)), false},
		"a body that never ends":                {trickles(time.Minute, 3), timeOut(works(0)), false},
		"a body that ends just after that":      {trickles(11*time.Second, 0), timeOut(works(0)), false},
		"a body that keeps a handler for long":  {trickles(6*time.Second, 0), timeOut(works(6 * time.Second)), false},
		"a short time-out, and a slow server":   {trickles(50*time.Millisecond, 1), soon(works(time.Minute)), true},
		"a body that trickles until it strikes": {trickles(110*time.Millisecond, 9), soon(works(0)), false},
		"a body that ends just after it":        {trickles(520*time.Millisecond, 0), givesUp, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := watched(t, post(c.body), c.handler, nil)
			if o.Status != http.StatusServiceUnavailable || core.ServerErrors(o) != c.refunded {
				t.Errorf("%s: %+v: refunded: %v", name, o, core.ServerErrors(o))
			}
			time.Sleep(10 * time.Minute) // what the time-out has left behind ends
		})
	}
}

// A write that a client does not take counts as waiting for it.
func TestAResponseThatTricklesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(slowWriter{w}, r) })
		}
		o := watched(t, post(nil), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
			panic("too late")
		}, slow)
		if o.Waited != time.Minute || core.ServerErrors(o) {
			t.Errorf("%+v", o)
		}
	})
}

type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Minute) // in a bubble
	return w.ResponseWriter.Write(b)
}

// The time-out handler around a limiter answers for it.
func TestATimeOutAroundTheLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := watched(t, post(nil), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			time.Sleep(time.Minute)
			_, _ = io.WriteString(w, "too late")
		}, func(next http.Handler) http.Handler {
			timed := http.TimeoutHandler(next, time.Second, "")
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				timed.ServeHTTP(w, r)
				time.Sleep(time.Hour) // the handler's goroutine ends
			})
		})
		if o.Status != http.StatusServiceUnavailable || !o.TimedOut || o.Canceled || !core.ServerErrors(o) || core.Successes(o) {
			t.Errorf("%+v", o)
		}
	})
}

// A panic is a failure, even if the handler has sent another status before.
func TestAPanicAfterTheStatus(t *testing.T) {
	t.Parallel()
	o := watched(t, post(nil), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic("on purpose")
	}, nil)
	if o.Status != http.StatusOK || !o.Panicked || !core.ServerErrors(o) {
		t.Errorf("%+v", o)
	}
}

// A panic goes on with its value, for who compares it, and with the frames that
// have brought it about, for who logs it.
func TestAPanicGoesOn(t *testing.T) {
	t.Parallel()
	limiter := adapter.New(core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(core.ServerErrors)}), "test")
	for _, value := range []any{http.ErrAbortHandler, "on purpose"} {
		func() {
			defer func() {
				check.Equal(t, "panic", recover(), value)
			}()
			r := post(nil)
			d, r := Decide(limiter, Of(r), r, http.Header{})
			Answer(limiter, httptest.NewRecorder(), r, d, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }), nil)
		}()
	}
}

// What http.MaxBytesReader refuses is too large, whoever returns its error.
func TestABodyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"too large": fmt.Errorf("bind: %w", &http.MaxBytesError{Limit: 1}), "canceled": fmt.Errorf("query: %w", context.Canceled),
	} {
		var seen core.Outcome
		limiter := adapter.New(core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
			seen = o
			return false
		})}), "test")
		r := post(nil)
		d, r := Decide(limiter, Of(r), r, http.Header{})
		f := Follow(d, r)
		f.End(Ending{Err: err, Status: 500, Rendered: true})
		if !seen.Canceled || seen.Status != 500 {
			t.Errorf("%s: %+v", name, seen)
		}
	}
}

// What a response is copied from is no client, even where the writer does the copying.
func TestASourceThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := watched(t, post(nil), func(w http.ResponseWriter, _ *http.Request) {
			source := reader(func([]byte) (int, error) {
				time.Sleep(time.Minute)
				return 0, errors.New("the backend is gone")
			})
			if _, err := w.(io.ReaderFrom).ReadFrom(source); err != nil {
				panic(err)
			}
		}, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(copyingWriter{w}, r) })
		})
		if o.Canceled || o.Waited != 0 || !core.ServerErrors(o) {
			t.Errorf("%+v", o)
		}
	})
}

type copyingWriter struct{ http.ResponseWriter }

func (w copyingWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }
