package main_test

import (
	"cmp"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

// What a start says of limits by ip without client_ip, each way says by which other limits come to decide: a file that is
// followed, a source, a signal and an operator.
func TestEachReloadSaysWhatWasLoaded(t *testing.T) {
	t.Parallel()
	const by = "by: ip without client_ip in api is the address that a gateway or caller names"
	const before, after = "policies: {api: {limits: {a: {limit: 1/s, by: user}}}}\n", "policies: {api: {limits: {a: {limit: 1/s, by: ip}}}}\n"
	server := redistest.StartTCP(t)
	publish := func(text string) {
		must.OK(t, redissource.Publish(t.Context(), server.Client(t), "limits", policy.File{Name: "limits.yaml", Text: []byte(text)}))
	}
	publish(before)
	for name, way := range map[string]struct {
		from   string // "" for a file
		change func(t *testing.T, in *instance, file string)
	}{
		"a file that is followed": {"", func(t *testing.T, _ *instance, file string) { rewrite(t, file, after) }},
		"a source":                {"redis:limits", func(_ *testing.T, _ *instance, _ string) { publish(after) }},
		"a signal": {"", func(t *testing.T, in *instance, file string) {
			rewrite(t, file, after)
			in.signal(t, syscall.SIGHUP)
		}},
		"an operator": {"", func(t *testing.T, in *instance, file string) {
			rewrite(t, file, after)
			if code, body := in.do(t, http.MethodPost, "/reload", "Weblimit-Inspect", "1"); code != http.StatusOK || !strings.Contains(body, by) {
				t.Errorf("%d %s", code, body)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, "limits.yaml", before)
			in := start(t, nil, "--redis", "redis://"+server.Addr(), "--policy", cmp.Or(way.from, file))
			if strings.Contains(in.log.String(), by) {
				t.Fatal("it is said of other limits")
			}
			way.change(t, in, file)
			wait.Until(t, "the log says so", func() bool { return strings.Contains(in.log.String(), by) })
			if _, body := in.do(t, http.MethodGet, "/status"); !strings.Contains(body, by) {
				t.Errorf("the status is %s", body)
			}
		})
	}
}
