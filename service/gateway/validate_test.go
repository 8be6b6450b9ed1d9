package gateway_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/gateway"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	good := core.PerHour(5).By(keyfuncs.ClientIP()).Named("client")
	for _, test := range []struct {
		name   string
		limits []core.Limit
		want   string
	}{
		{"limits that a gateway can enforce", []core.Limit{good}, ""},
		{"concurrent requests", []core.Limit{good, core.Concurrent(1).By(keyfuncs.ClientIP()).Named("running")}, `limit "running": a gateway can't enforce`},
		{"a limit that can't work", []core.Limit{core.PerHour(0).By(keyfuncs.ClientIP())}, "quota"},
	} {
		err := gateway.Validate("api", test.limits)
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}
