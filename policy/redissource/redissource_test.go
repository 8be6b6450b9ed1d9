package redissource_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/redissource"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func file(n int) policy.File {
	return policy.File{Name: "limits.yaml", Text: fmt.Appendf(nil, "version: v%d\npolicies: {api: {limits: {a: {limit: %d/s, by: account}}}}", n, n)}
}

// clientOf returns a client that waits for a server on a busy machine, and repeats nothing.
func clientOf(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	return s.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: time.Minute})
}

func TestAFleetFollowsRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := clientOf(t, redistest.Shared(t))
	key := redistest.Prefix(t) + "policy"
	from := redissource.New(client, key)
	if _, err := policy.From(from); err == nil {
		t.Error("no error for a key that there is not")
	}
	var wrong *policy.Error
	if err := redissource.Publish(ctx, client, key, policy.File{Name: "x", Text: []byte("policies: 1")}); !errors.As(err, &wrong) {
		t.Errorf("a wrong file: %v", err)
	}
	publish := func(n int) {
		t.Helper()
		if err := redissource.Publish(ctx, client, key, file(n)); err != nil {
			t.Fatal(err)
		}
	}
	publish(1)
	options := policy.Options{AnyName: true, Logger: slog.New(slog.DiscardHandler), Keep: filepath.Join(t.TempDir(), "kept")}
	fleet := make([]*policy.Set, 3)
	for i := range fleet {
		set, err := policy.From(from, options)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Watch(ctx)()
		fleet[i] = set
	}
	publish(2)
	for _, set := range fleet {
		archivetest.Until(t, "a process follows", func() bool { return set.Status().Version.Name == "v2" })
	}
	// Somebody writes to the key without the check.
	if err := client.HSet(ctx, key, "text", "policies: 1", "sha256", "x").Err(); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "a process refuses", func() bool { return fleet[0].Status().Err != nil })
	if err := client.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "a process notices that there is no file", func() bool { return fleet[0].Status().Refused >= 2 })
	if got := fleet[0].Status().Version.Name; got != "v2" {
		t.Errorf("%s decides", got)
	}
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond, MaxRetries: -1})
	defer func() { _ = away.Close() }()
	set, err := policy.From(redissource.New(away, key), options)
	if err != nil || set.Status().Version.Name != "v2" || set.Status().Err == nil {
		t.Errorf("a start without Redis: %v", err)
	}
}
