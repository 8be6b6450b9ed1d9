package proxies

import (
	"maps"
	"net"
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/test/check"
)

// Headers with IPv6 addresses are read as proxies write them.
func TestClientsWithIPv6Addresses(t *testing.T) {
	t.Parallel()
	const client = "::1"
	l, err := net.Listen("tcp", "["+client+"]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	_ = l.Close()
	for _, c := range []struct {
		proxy *proxy
		edits []string // make it listen on ::1 too
	}{
		{&nginx, []string{"http2;", "http2;\nlisten [::1]:PORT ssl http2;"}},
		{&haproxy, []string{"option forwardfor", "bind [::1]:PORT ssl crt CERT\noption forwardfor"}},
	} {
		t.Run(c.proxy.name, func(t *testing.T) {
			t.Parallel()
			routes := c.proxy.routes(t, "tcp")
			front, stop := behind(t, frameworks.All[0], c.proxy, "tcp", routes, c.edits...)
			_, port, _ := net.SplitHostPort(front.addr)
			for _, r := range routes {
				lie := forgery{fields: all("2001:db8::1")}.http1(r.Path)
				got := pipeline(t, client, net.JoinHostPort(client, port), pause, bytesOf(lie, quota+1))
				if want := map[int]int{http.StatusOK: quota, http.StatusTooManyRequests: 1}; !maps.Equal(got, want) {
					t.Errorf("%s: got %v, want %v", r.Path, got, want)
				}
				check.Slices(t, r.Path+": the client's keys", r.usedUp(), []string{"ip:::/64"})
			}
			stop()
		})
	}
}
