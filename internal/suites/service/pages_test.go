package service_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
	"github.com/weblimit/weblimit/service/gateway"
)

// The code of docs/service/policy.md and docs/service/gateways.md.

func planOf(keyfuncs.Request) string { return "pro" }

func byPolicy(ctx context.Context, server *http.Server, mux *http.ServeMux, store core.Store) error {
	set, err := policy.Load("limits.yaml", policy.Options{
		Values: map[string]func(keyfuncs.Request) string{"plan": planOf},
	})
	if err != nil {
		return err // all that is wrong with the file
	}
	limits := nethttp.With(core.Config{Store: store})
	server.Handler = limits.Policy(set, "api")(mux)

	stop := set.Watch(ctx) // changes of the file, and SIGHUP
	defer stop()
	return nil
}

func byRedis(ctx context.Context, rdb redis.UniversalClient) error {
	set, err := policy.From(redissource.New(rdb, "limits"), policy.Options{Keep: "/var/lib/app/limits.yaml"})
	if err != nil {
		return err
	}
	defer set.Watch(ctx)()
	return nil
}

func answerGateways(listener net.Listener, store core.Store) error {
	set, err := policy.Load("limits.yaml", policy.Options{Validate: gateway.Validate})
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Policies: set,
		Names:    set.Names(),
		Limiter:  core.Config{Store: store},
	})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(listener)
}

var _ = byRedis // needs a server

// Not parallel: the pages load a file of the working directory.
func TestTheCodeOfPolicyAndGatewaysRuns(t *testing.T) {
	dir := t.TempDir()
	text := "policies: {api: {limits: {client: {limit: 5/hour, by: ip, tiers: {by: plan, limits: {pro: 9/hour}}}}}}"
	must.OK(t, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(text), 0o600))
	t.Chdir(dir)
	server := new(http.Server)
	if err := byPolicy(t.Context(), server, http.NewServeMux(), core.NewMemory()); err != nil || server.Handler == nil {
		t.Error(err)
	}
	text = "policies: {api: {limits: {client: {limit: 5/hour, by: ip}}}}"
	must.OK(t, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(text), 0o600))
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error, 1)
	go func() { ended <- answerGateways(listener, core.NewMemory()) }()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/v1/auth/api", nil))(t)
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	request.Header.Set("X-Forwarded-Method", http.MethodGet)
	request.Header.Set("X-Forwarded-Uri", "/")
	response := must.Get(http.DefaultClient.Do(request))(t)
	_ = response.Body.Close()
	check.Equal(t, "a subrequest gets", response.StatusCode, http.StatusOK)
	_ = listener.Close()
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
}
