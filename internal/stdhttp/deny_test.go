package stdhttp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/core"
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
