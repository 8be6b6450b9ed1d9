package gateways

import (
	"net/http"
	"slices"
	"testing"
)

// nginx counts by limit_req once for each request. So while the limiter is away, a limit_req of the location's own takes
// the place of that for clients, as docs/service/nginx.md says: fewer pass, or more, and none is an error.
func TestALimitReqOfTheLocationsOwn(t *testing.T) {
	t.Parallel()
	own := *nginx
	own.edits = slices.Concat(own.edits, []string{
		"    location / {\n", "    location / {\n        limit_req zone=own burst=70 nodelay;\n        limit_req_status 429;\n",
		"limit_req_zone $weblimit_client", "limit_req_zone $remote_addr zone=own:1m rate=1r/m;\nlimit_req_zone $weblimit_client",
	})
	s := own.start(t, fast, "")
	s.limiter.stop()
	c := s.client(t, newClient())
	got := map[int]int{}
	for range 100 {
		res, err := c.Get("https://example.com/things")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		got[res.StatusCode]++
	}
	if passed := got[http.StatusOK]; passed < 71 || passed > 73 || passed+got[http.StatusTooManyRequests] != 100 {
		t.Errorf("the answers are %v", got)
	}
}
