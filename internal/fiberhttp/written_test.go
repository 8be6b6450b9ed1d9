package fiberhttp

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/core"
)

func TestIsWritten(t *testing.T) {
	t.Parallel()
	for _, name := range append(core.ExposeHeaders(), "x-ratelimit-remaining", "RATELIMIT") {
		if !IsWritten([]byte(name)) || !IsWritten([]byte(http.CanonicalHeaderKey(name))) {
			t.Errorf("%s is none", name)
		}
	}
	for _, name := range []string{"", "X", "Content-Type", "Referrer-Policy", "X-Request-Id", "Warning", "Ratelim"} {
		if IsWritten([]byte(name)) {
			t.Errorf("%s is one", name)
		}
	}
}
