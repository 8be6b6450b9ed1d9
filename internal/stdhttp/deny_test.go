package stdhttp

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestClearValidatorsKnowsTheMapsSpelling(t *testing.T) {
	t.Parallel()
	h := http.Header{"ETag": {"x"}}
	for _, name := range stale {
		if name != "ETag" && http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not in canonical form", name)
		}
		h.Set(name, "x")
	}
	h.Set("Vary", "Accept")
	ClearValidators(h)
	if len(h) != 2 || h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("left: %v", h)
	}
}

func TestDenyWithoutLengthWhereItIsCompressed(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", "7")
	Deny(w, httptest.NewRequest("GET", "/", nil), &core.Decision{})
	if got := w.Result().Header; got.Get("Content-Length") != "" || got.Get("Content-Encoding") != "gzip" {
		t.Errorf("headers: %v", got)
	}
}

// A hook that sends an interim response has not answered yet.
func TestADeniedHookThatOnlyHints(t *testing.T) {
	t.Parallel()
	denied := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())})
	denied.AllowKey(t.Context(), "all", 1)
	d := denied.AllowKey(t.Context(), "all", 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Denied(w, r, &d, func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { w.WriteHeader(http.StatusEarlyHints) })
	}))
	defer server.Close()
	res := must.Get(http.Get(server.URL))(t)
	_ = res.Body.Close()
	check.Equal(t, "status", res.StatusCode, http.StatusTooManyRequests)
	check.Equal(t, "Content-Type", res.Header.Get("Content-Type"), core.ProblemType)
}

// deface changes all values of a response in place, and adds others.
func deface(h http.Header) {
	for name, values := range h {
		for i := range values[:cap(values)] {
			values[:cap(values)][i] = "defaced"
		}
		h[name] = append(values, "added")
	}
}

func TestValuesOfADenialAreItsOwn(t *testing.T) {
	t.Parallel()
	for range 2 {
		w := httptest.NewRecorder()
		Deny(w, httptest.NewRequest("GET", "/", nil), &core.Decision{})
		h := w.Header()
		if h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != core.ProblemType || h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Errorf("headers: %v", h)
		}
		h["Cache-Control"] = append(h["Cache-Control"], "added")
		check.Equal(t, "what is appended to one header is in another", h.Get("Content-Type"), core.ProblemType)
		deface(h)

		h = http.Header{}
		ClearValidators(h)
		if len(h) != 1 || h.Get("Cache-Control") != "no-store" {
			t.Errorf("headers for a hook: %v", h)
		}
		deface(h)
	}
}
