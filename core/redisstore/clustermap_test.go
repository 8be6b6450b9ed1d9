package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A Cluster client on servers that don't tell their slots says why, and not that something took too long: with
// the first check, and no later check waits for it.
func TestAClusterClientWithoutSlots(t *testing.T) {
	t.Parallel()
	single := redistest.Shared(t)
	secured := redistest.Start(t)
	secured.User(t, "limits", "~*", "-@all", "+evalsha", "+eval", "+get", "+psetex", "+time")
	on := func(s *redistest.Server, user string) *redis.ClusterOptions {
		o := s.Client(t).Options()
		options := &redis.ClusterOptions{
			Addrs: []string{o.Addr}, Username: user,
			NewClient: func(each *redis.Options) *redis.Client {
				each.Network = o.Network
				return redis.NewClient(each)
			},
		}
		if user != "" {
			options.Password = s.ClientAs(t, user).Options().Password
		}
		return options
	}
	closed := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}
	for name, c := range map[string]struct {
		options *redis.ClusterOptions
		class   store.Class
		want    string
		waits   bool
	}{
		"a server that is no Cluster":  {on(single, ""), store.ClassUnsupported, "the client is a redis.ClusterClient, and the server is no Cluster: use redis.NewClient, or redis.NewUniversalClient without IsClusterMode", false},
		"a user without cluster|slots": {on(secured, "limits"), store.ClassPermission, "loading the map of the Cluster's slots", false},
		"nobody":                       {closed, store.ClassConnection, "loading the map of the Cluster's slots", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClusterClient(c.options)
			defer client.Close()
			s, rule := redisstore.New(client), mustRule(t, core.PerHour(10))
			told := 0
			for range 20 {
				wait := time.Minute
				if c.waits {
					wait = time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				err := s.Take(ctx, []store.Check{checkOf("k", rule, 1)}, make([]store.Result, 1))
				cancel()
				e := store.ErrorOf(err)
				if c.waits && e != nil && e.Class == store.ClassTimeout {
					continue // this process was stopped before it had tried to connect
				}
				check.Fails(t, "a check", err, c.want)
				if e != nil {
					check.Equal(t, "class", e.Class, c.class)
				}
				if told++; c.waits && told == 2 {
					break
				}
			}
			if told < 2 {
				t.Errorf("%d checks say why, want two at least", told)
			}
		})
	}
}
