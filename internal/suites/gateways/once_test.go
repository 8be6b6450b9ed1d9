package gateways

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
)

// once is the limit of docs/choose/where.md that two places ask for one request.
const once = `
policies:
  api:
    limits:
      client: {limit: 5/hour fixed, by: ip, once_per: {key: {header: X-Request-Id}, for: 1m, repeats: 1}}
`

// With the line of docs/choose/where.md, nginx names each request for limiter and application alike, whatever
// name the client has sent: what the application asks again is a repeat, and what the next request asks is
// none.
func TestARequestIsNamedOnceByNginx(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile("```nginx\n(.*)\n```").FindStringSubmatch(documents.Read(t, "choose/where.md"))
	if line == nil || !strings.Contains(documents.Read(t, "choose/where.md"), strings.TrimSpace(strings.Split(once, "\n")[4])) {
		t.Fatal("docs/choose/where.md has another limit, or no line for nginx")
	}
	naming := *nginx
	for _, address := range []string{"X-Forwarded-For $remote_addr;", "X-Forwarded-For    $remote_addr;"} { // of both locations
		naming.edits = slices.Concat(naming.edits, []string{address, address + " " + line[1]})
	}
	edge.AwayFrom(time.Hour, time.Minute) // the limit's window
	s := naming.start(t, once, "")
	service := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.limiter.addr)
	}}}
	t.Cleanup(service.CloseIdleConnections)

	names := map[string]bool{}
	for i := range 7 {
		a := s.send(t, proxies.Bystander, "GET /things HTTP/1.1\r\nHost: example.com\r\nX-Request-Id: made up by the client\r\n\r\n")
		if i >= 5 {
			if a.StatusCode != http.StatusTooManyRequests {
				t.Errorf("request %d of 5: %s", i+1, a.Status)
			}
			continue
		}
		fields := s.last.Load().Header.Values("X-Request-Id")
		if a.StatusCode != http.StatusOK || len(fields) != 1 || names[fields[0]] || len(fields[0]) < 32 {
			t.Fatalf("request %d: %s, named %q after %v", i+1, a.Status, fields, names)
		}
		names[fields[0]] = true
		body := must.Get(json.Marshal(map[string]any{"policy": "api", "request": map[string]any{
			"method": "GET", "path": "/things", "client_ip": proxies.Bystander, "headers": map[string]string{"X-Request-Id": fields[0]},
		}}))(t)
		response := must.Get(service.Post("http://localhost/v1/check", "application/json", bytes.NewReader(body)))(t)
		var again struct {
			Allowed bool
			Limits  []struct {
				Remaining int
				Repeated  bool
			}
		}
		err := json.NewDecoder(response.Body).Decode(&again)
		_ = response.Body.Close()
		if err != nil || !again.Allowed || len(again.Limits) != 1 || !again.Limits[0].Repeated || again.Limits[0].Remaining != 4-i {
			t.Errorf("request %d, asked by the application: %v %+v", i+1, err, again)
		}
	}
}
