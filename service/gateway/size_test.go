package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/gateway"
)

// buffer is that of nginx for the header of an answer, by default. A larger answer is an error to it, and 20 errors a limiter that is away.
const buffer = 4096

// headerOf asks over a connection, and returns the answer and the bytes of its header.
func headerOf(t *testing.T, addr, path string) (status int, h textproto.MIMEHeader, size int) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: weblimit\r\nConnection: close\r\nAccept-Language: de\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /things\r\n\r\n"))(t)
	text := string(must.Get(io.ReadAll(conn))(t))
	head, _, found := strings.Cut(text, "\r\n\r\n")
	if !found {
		t.Fatalf("%.200q", text)
	}
	must.Get(fmt.Sscanf(head, "HTTP/1.1 %d", &status))(t)
	_, lines, _ := strings.Cut(head, "\r\n")
	h = must.Get(textproto.NewReader(bufio.NewReader(strings.NewReader(lines + "\r\n\r\n"))).ReadMIMEHeader())(t)
	return status, h, len(head) + 4
}

// An answer fits the buffers of gateways, whatever the policy: of limits that have long names and large numbers, in
// all dialects, with texts of the application.
func TestAnswersFitTheBuffersOfGateways(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Zu viele Anfragen. ", 1000)
	many := func(policy string, quota int64, more func(core.Limit) core.Limit) (limits []core.Limit) {
		for i := range 255 {
			limits = append(limits, more(core.Per(quota, 99*365*24*time.Hour).FixedWindow().By(keyfuncs.ClientIP()).Named(fmt.Sprintf("%s%057d", policy, i))))
		}
		return limits
	}
	same := func(l core.Limit) core.Limit { return l }
	month := core.PerMonth(1<<50, time.UTC).By(keyfuncs.ClientIP()).Named(strings.Repeat("m", 64))
	policies := inCode{
		"allowed": append(many("allowed", 1<<50, func(l core.Limit) core.Limit { return l.WarnAt(1e-6).Soft(1) })[:200], month),
		"denied":  append(many("denied0", 1, same)[:200], month),
		"missing": {core.PerHour(1).By(keyfuncs.APIKey(strings.Repeat("X-Key-", 10) + "X")).OnMissingKey(core.DenyRequest).Named("key")},
	}
	for _, dialects := range []core.Headers{core.Draft11 | core.Draft03 | core.XRateLimit | core.XQuota, core.Draft07 | core.Draft03 | core.XRateLimitDelta | core.XQuota} {
		for _, details := range []string{"", long} {
			g := newGateway(t, policies, func(c *gateway.Config) {
				c.Limiter.Headers = dialects
				if details != "" {
					c.Limiter.Details = map[string]func(core.Decision) string{"de": func(core.Decision) string { return details }}
				}
			})
			server := httptest.NewServer(g)
			t.Cleanup(server.Close)
			for _, way := range []string{"/v1/auth/", "/v1/auth_request/", "/v1/ext_authz/"} {
				for policy, want := range map[string]int{"allowed": 200, "denied": 429, "missing": 401} {
					path := way + policy
					if way == "/v1/ext_authz/" {
						path += "/things"
					}
					headerOf(t, server.Listener.Addr().String(), path)
					status, h, size := headerOf(t, server.Listener.Addr().String(), path)
					if size > buffer {
						t.Errorf("%s, dialects %b: a header of %d bytes", path, dialects, size)
					}
					if way == "/v1/auth_request/" && want != 200 {
						check.Equal(t, path+": Weblimit-Status", h.Get("Weblimit-Status"), fmt.Sprint(want))
						if problem := h.Get("Weblimit-Problem"); !strings.HasPrefix(problem, `{"type":`) || !strings.HasSuffix(problem, "}") {
							t.Errorf("%s: %q", path, problem)
						}
						want = http.StatusForbidden
					}
					check.Equal(t, path+": status", status, want)
					if t.Failed() {
						t.Fatalf("%v\n%s", h, g.log)
					}
				}
			}
		}
	}
}
