package redissource_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/redissource"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	os.Exit(redistest.Main(m))
}

// clientOf returns a client that waits for a server on a busy machine, and repeats nothing.
func clientOf(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	return s.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: time.Minute})
}

func TestCallsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	client := clientOf(t, redistest.Shared(t))
	err := redissource.Publish(t.Context(), client, "limits", policy.File{}, policy.Options{}, policy.Options{})
	check.Fails(t, "two Options", err, "more than one Options")
	for name, c := range map[string]struct {
		client redis.UniversalClient
		key    string
	}{"no client": {nil, "limits"}, "no key": {client, ""}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			redissource.New(c.client, c.key)
		}()
	}
}

func TestAFleetFollowsRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := clientOf(t, redistest.Shared(t))
	key := redistest.Prefix(t) + "policy"
	from := redissource.New(client, key)
	check.Fails(t, "a key that there is not", check.ErrorOf(policy.From(from)), "")
	var wrong *policy.Error
	if err := redissource.Publish(ctx, client, key, policy.File{Name: "x", Text: []byte("policies: 1")}); !errors.As(err, &wrong) {
		t.Errorf("a wrong file: %v", err)
	}
	publish := func(n int) {
		t.Helper()
		must.OK(t, redissource.Publish(ctx, client, key, archivetest.File(n)))
	}
	publish(1)
	options := policy.Options{AnyName: true, Logger: slog.New(slog.DiscardHandler), Keep: filepath.Join(t.TempDir(), "kept")}
	fleet := make([]*policy.Set, 3)
	for i := range fleet {
		fleet[i] = must.Get(policy.From(from, options))(t)
		defer fleet[i].Watch(ctx)()
	}
	publish(2)
	for _, set := range fleet {
		wait.Until(t, "a process follows", func() bool { return set.Status().Version.Name == "v2" })
	}
	// Somebody writes to the key without the check.
	must.OK(t, client.HSet(ctx, key, "text", "policies: 1", "sha256", "x").Err())
	wait.Until(t, "a process refuses", func() bool { return fleet[0].Status().Err != nil })
	must.OK(t, client.Del(ctx, key).Err())
	wait.Until(t, "a process notices that there is no file", func() bool { return fleet[0].Status().Refused >= 2 })
	check.Equal(t, "what decides", fleet[0].Status().Version.Name, "v2")
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond, MaxRetries: -1})
	defer func() { _ = away.Close() }()
	set, err := policy.From(redissource.New(away, key), options)
	if err != nil || set.Status().Version.Name != "v2" || set.Status().Err == nil {
		t.Errorf("a start without Redis: %v", err)
	}
}
