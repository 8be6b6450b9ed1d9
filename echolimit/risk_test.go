package echolimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/internal/stdhttp"
)

func TestFrameworkRisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		extractor echo.IPExtractor
		risky     bool
	}{
		{"without an extractor Echo trusts everybody", nil, true},
		{"an extractor of the application that believes everybody", func(r *http.Request) string { return r.Header.Get("X-Forwarded-For") }, true},
		{"the peer", echo.ExtractIPDirect(), false},
		{"X-Forwarded-For from private networks", echo.ExtractIPFromXFFHeader(), false},
		{"X-Real-IP from private networks", echo.ExtractIPFromRealIPHeader(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := echo.New()
			e.IPExtractor = tt.extractor
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			in := &request{Request: stdhttp.Of(r), c: e.NewContext(r, nil)}
			if risk := in.FrameworkRisk(); (risk != "") != tt.risky {
				t.Errorf("risk: %q", risk)
			}
			if got := in.FrameworkIP(); got != in.c.RealIP() || (got == "203.0.113.9") != tt.risky {
				t.Errorf("the framework's address: %q", got)
			}
		})
	}
}
