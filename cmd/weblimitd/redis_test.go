package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

// onRedis are the stores that a service may have, with the flags for each.
func onRedis(t *testing.T) map[string][]string {
	t.Helper()
	single := redistest.StartTCP(t)
	cluster := redistest.SharedCluster(t)
	sentinel := redistest.StartSentinel(t)
	return map[string][]string{
		"one server": {"--redis", "redis://" + single.Addr()},
		"a socket":   {"--redis", "unix://" + redistest.Shared(t).Addr(), "--prefix", redistest.Prefix(t)},
		"Cluster":    {"--redis", "redis://" + cluster.Masters()[0].Addr() + "?addr=" + cluster.Masters()[1].Addr(), "--redis-cluster", "--prefix", redistest.Prefix(t)},
		"Sentinel":   {"--redis", "redis://" + sentinel.Sentinels()[0].Addr() + "?addr=" + sentinel.Sentinels()[1].Addr(), "--redis-sentinel-master", redistest.MasterName},
	}
}

// Readiness follows Redis: degraded and still ready while it is away, unless told otherwise. Liveness
// does not care. Without a request being made, too.
func TestReadinessKnowsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	stays := start(t, nil, "--redis", "redis://"+server.Addr())
	leaves := start(t, nil, "--redis", "redis://"+server.Addr(), "--ready-in-outage=false")
	expect := func(in *instance, code int, word string) {
		t.Helper()
		wait.Until(t, "it is "+word, func() bool {
			status, body := in.get(t, "/readyz")
			return status == code && strings.Contains(body, `"`+word+`"`)
		})
		if status, _ := in.get(t, "/healthz"); status != 200 {
			t.Errorf("liveness: %d", status)
		}
	}
	expect(stays, 200, "ready")
	expect(leaves, 200, "ready")
	server.Kill()
	expect(stays, 200, "degraded")
	expect(leaves, 503, "degraded")
	check.Equal(t, "weblimitd_store_up", stays.metric(t, "weblimitd_store_up"), "0")
	fails(t, "")(run(t, nil, "healthcheck", leaves.admin))
	passes(t, "")(run(t, nil, "healthcheck", stays.admin))
	server.Restart(t)
	expect(stays, 200, "ready")
	expect(leaves, 200, "ready")
	server.Freeze(t)
	expect(leaves, 503, "degraded")
	server.Thaw(t)
	expect(leaves, 200, "ready")
}

// What the store says of its health is in the service's own log, in its format.
func TestOneLogOfOneFormat(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--redis", "redis://"+server.Addr())
	server.Kill()
	in.allows(t, "192.0.2.1", 1)
	wait.Until(t, "the outage is logged", func() bool { return strings.Contains(in.log.String(), "weblimit: outage began") })
	for text := range strings.Lines(in.log.String()) {
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %s", text)
		}
	}
}

// A program that has the library and the same policy file shares every quota with weblimitd, with no
// setting but the address of Redis.
func TestTheLibrarySharesQuotas(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	text := onePolicy("1", 5)
	in := start(t, nil, "--redis", "redis://"+server.Addr(), "--policy", write(t, "limits.yaml", text))
	set := must.Get(policy.Parse("limits.yaml", []byte(text)))(t)
	library := must.Get(set.Limiter(core.Config{Store: redisstore.New(server.Client(t))}, "api"))(t)
	for i := range 6 {
		if i%2 == 0 {
			check.Equal(t, fmt.Sprintf("request %d, by weblimitd", i+1), in.allows(t, "192.0.2.1", 1) == 1, i < 5)
		} else if d := library.AllowKey(t.Context(), "ip:192.0.2.1", 1); d.Allowed != (i < 5) {
			t.Errorf("request %d, by the library: %v", i+1, d)
		}
	}
}

// It starts while Redis is away.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--redis", "redis://127.0.0.1:1")
	wait.Until(t, "it is degraded", func() bool {
		status, body := in.get(t, "/readyz")
		return status == 200 && strings.Contains(body, "degraded")
	})
	check.Equal(t, "exit code", in.stop(t), 0)
}

// A policy that is published in Redis changes all instances, and is kept for a start without Redis.
func TestPolicyInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	publish := func(version string) {
		t.Helper()
		file := policy.File{Name: "limits.yaml", Text: []byte(onePolicy(version, 5))}
		must.OK(t, redissource.Publish(t.Context(), server.Client(t), "limits", file))
	}
	publish("1")
	kept := write(t, "kept.yaml", "")
	args := []string{"--redis", "redis://" + server.Addr(), "--policy", "redis:limits", "--policy-keep", kept}
	in := start(t, nil, args...)
	in.decides(t, "1")
	publish("2")
	in.decides(t, "2")
	wait.Until(t, "version 2 is kept", func() bool { // which happens after it decides
		text, err := os.ReadFile(kept)
		return err == nil && strings.Contains(string(text), onePolicy("2", 5))
	})
	server.Kill()
	again := start(t, nil, args...)
	again.decides(t, "2")
}

// A signal that comes while everything is read has it read once more: what it is about may have been read
// before.
func TestReloadWhileReloading(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	must.OK(t, redissource.Publish(t.Context(), server.Client(t), "limits", policy.File{Name: "limits.yaml", Text: []byte(onePolicy("1", 5))}))
	socket, heard := listenAsSystemd(t)
	in := start(t, []string{"NOTIFY_SOCKET=" + socket}, "--redis", "redis://"+server.Addr(), "--policy", "redis:limits")
	reloads := func(n int) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("%d reloads began", n), func() bool { return strings.Count(heard.String(), "RELOADING=1") == n })
	}
	server.Freeze(t)
	in.signal(t, syscall.SIGHUP)
	reloads(1)
	in.signal(t, syscall.SIGHUP)
	time.Sleep(100 * time.Millisecond) // or the signal may come afterwards
	server.Thaw(t)
	reloads(2)
}
