package ginlimit

import (
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/must"
)

// The advisor asks for this when limits are by the framework's own address.
func TestFrameworkRisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		trust func(*gin.Engine) error
		risky bool
	}{
		{"the default engine trusts everybody", func(*gin.Engine) error { return nil }, true},
		{"no proxy is trusted", func(r *gin.Engine) error { return r.SetTrustedProxies(nil) }, false},
		{"one network is trusted", func(r *gin.Engine) error { return r.SetTrustedProxies([]string{"10.0.0.0/8"}) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := gin.New()
			must.OK(t, tt.trust(r))
			c := gin.CreateTestContextOnly(httptest.NewRecorder(), r)
			c.Request = httptest.NewRequest("GET", "/", nil)
			if risk := (request{c}).FrameworkRisk(); (risk != "") != tt.risky {
				t.Errorf("risk: %q", risk)
			}
			if c.Request.RemoteAddr == "198.51.100.77:80" {
				t.Error("the request itself was changed")
			}
		})
	}
}
