package redisstore_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// listening has a store deny a request of a key of its own until the store hears what others
// give back.
func listening(t *testing.T, s *redisstore.Store) {
	t.Helper()
	rule := mustRule(t, core.PerHour(1).Named("listening"))
	take(t, s, checkOf("listening", rule, 1))
	wait.Until(t, "the store listens", func() bool {
		take(t, s, checkOf("listening", rule, 1))
		return s.Hears()
	})
}

// caching is a configuration that repeats denials for longer than a test takes.
func caching(prefix string) redisstore.Config {
	return redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Age: forever, Size: 64}}
}

// giveBacks are what a process can do that ends denials of rule's key "k" in others: charged is
// its charge of the whole quota of 3.
var giveBacks = map[string]func(t *testing.T, s *redisstore.Store, limit core.Limit, charged []core.Result) error{
	"refund": func(t *testing.T, s *redisstore.Store, limit core.Limit, charged []core.Result) error {
		return s.Refund(t.Context(), []core.Check{checkOf("k", mustRule(t, limit), 3)}, charged)
	},
	"reset": func(t *testing.T, s *redisstore.Store, limit core.Limit, _ []core.Result) error {
		return s.Reset(t.Context(), []core.Check{checkOf("k", mustRule(t, limit), 0)})
	},
}

func TestWhatAnotherProcessGivesBackEndsADenial(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range map[string]core.Limit{
		"token bucket":   core.PerHour(3),
		"fixed window":   core.Per(3, hammerWindow).FixedWindow(),
		"sliding window": core.PerHour(3).SlidingWindow(),
		"sliding log":    core.PerHour(3).SlidingLog(),
	} {
		for name, giveBack := range giveBacks {
			t.Run(algorithm+", "+name, func(t *testing.T) {
				t.Parallel()
				server, prefix, rule := redistest.Shared(t), redistest.Prefix(t), mustRule(t, limit)
				a := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
				b := redisstore.New(server.Client(t), caching(prefix))
				listening(t, b)
				charged := take(t, a, checkOf("k", rule, 3))
				for range 2 {
					if r := take(t, b, checkOf("k", rule, 1))[0]; r.Allowed {
						t.Fatalf("a fourth request of 3 passed: %+v", r)
					}
				}
				must.OK(t, giveBack(t, a, limit, charged))
				wait.Until(t, "the other process sees it", func() bool { return take(t, b, checkOf("k", rule, 1))[0].Allowed })
			})
		}
	}
}

// A process with a raised limit rewrites the record, which can end a denial under the old one.
func TestAConvertedRecordEndsADenial(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	old, raised := mustRule(t, core.PerHour(3).Named("l")), mustRule(t, core.PerHour(300000).Named("l"))
	a := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
	b := redisstore.New(server.Client(t), caching(prefix))
	listening(t, b)
	take(t, b, checkOf("k", old, 3))
	for range 2 {
		take(t, b, checkOf("k", old, 1))
	}
	take(t, a, checkOf("k", raised, 1))
	wait.Until(t, "the denial is asked for again", func() bool { return !take(t, b, checkOf("k", old, 1))[0].Cached })
}

// published returns what is published under a prefix until the test ends.
func published(t *testing.T, server *redistest.Server, prefix string) (keys func() []string) {
	t.Helper()
	sub := server.Client(t).Subscribe(t.Context(), prefix+"given-back")
	t.Cleanup(func() { _ = sub.Close() })
	must.Do(sub.Receive(t.Context()))(t)
	var mu sync.Mutex
	var got []string
	go func() {
		for m := range sub.Channel() {
			mu.Lock()
			if m.Payload != "" {
				got = append(got, m.Payload)
			}
			mu.Unlock()
		}
	}()
	client := server.Client(t)
	return func() []string {
		redistest.Prepare(t, client, func(p redis.Pipeliner) { p.Publish(t.Context(), prefix+"given-back", "the end") })
		var all []string
		wait.Until(t, "all that was published is here", func() bool {
			mu.Lock()
			defer mu.Unlock()
			at := slices.Index(got, "the end")
			if at >= 0 {
				all, got = got[:at], nil
			}
			return at >= 0
		})
		return all
	}
}

func TestOnlyWhatEndsACachedDenialIsPublished(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	rule := mustRule(t, core.Per(3, hammerWindow).FixedWindow())
	deaf := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Disabled: true}})
	b := redisstore.New(server.Client(t), caching(prefix))
	listening(t, b)
	keys := published(t, server, prefix)
	want := func(what string, want ...string) {
		t.Helper()
		check.Slices(t, what+": published", keys(), want)
	}
	one := []core.Check{checkOf("k", rule, 1)}
	refund := func(r []core.Result) {
		t.Helper()
		must.OK(t, b.Refund(t.Context(), one, r))
	}
	refund(take(t, b, one...))
	want("the refund of an allowed request")
	take(t, b, one...)
	take(t, b, one...)
	last := take(t, b, one...)
	refund(last)
	want("a refund at the end of the quota, without a denial")
	last = take(t, b, one...)
	take(t, deaf, one...)
	refund(last)
	want("a refund after a denial that nobody repeats")
	last = take(t, b, one...)
	take(t, b, one...)
	take(t, b, checkOf("other", rule, 1))
	refund(last)
	want("a refund after a denial", "{k}")
	take(t, b, one...)
	refund(last)
	want("a refund after that")
}

// The age of the denials is an hour here, so that of notices is two. The window is a long one and
// then one that ends before.
func TestADenialLeavesOneNoticePerAge(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"a long window":                  core.Per(3, hammerWindow).FixedWindow(),
		"a bucket that is full before":   core.Per(3, 30*time.Minute),
		"a log that is empty before":     core.Per(3, 30*time.Minute).SlidingLog(),
		"a block that ends with it, too": core.Per(3, 30*time.Minute).SlidingLog().Penalty(core.Block{After: 1, Within: 20 * time.Minute, For: 20 * time.Minute}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rule := mustRule(t, limit)
			var stores []*redisstore.Store
			for range 3 {
				s := redisstore.New(server.Client(t), caching("weblimit:"))
				listening(t, s)
				stores = append(stores, s)
			}
			take(t, stores[0], checkOf("k", rule, 3))
			client := server.Client(t)
			before := server.Calls(t, "psetex")
			if rule.Penalized() {
				take(t, stores[0], checkOf("k", rule, 1)) // begins the block, with a notice
			}
			ttl := client.PTTL(t.Context(), "weblimit:{k}").Val()
			for _, s := range stores {
				for range 10 {
					take(t, s, checkOf("k", rule, 1))
				}
			}
			check.Equal(t, "three processes were denied: writes", server.Calls(t, "psetex")-before, 1)
			if after := client.PTTL(t.Context(), "weblimit:{k}").Val(); after > ttl {
				t.Errorf("the notice extended the life of the key from %v to %v", ttl, after)
			}
			value := client.Get(t.Context(), "weblimit:{k}").Val()
			if n := strings.Count(value, "\xfe\xff\xff\xff"); n != 1 {
				t.Errorf("the value has %d notices, want 1: %q", n, value)
			}
			must.OK(t, stores[0].Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
			if n := client.Exists(t.Context(), "weblimit:{k}").Val(); n != 0 {
				t.Errorf("the key exists after its only limit was reset: %q", client.Get(t.Context(), "weblimit:{k}").Val())
			}
		})
	}
}

// Neither does another limit of the key whose record ends, nor a charge beside the notice.
func TestANoticeKeepsNoKey(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	rule, other := mustRule(t, core.Per(3, 20*time.Minute).Named("denies")), mustRule(t, core.Per(3, 10*time.Minute).Named("other").SlidingLog())
	s := redisstore.New(server.Client(t), caching(prefix))
	listening(t, s)
	take(t, s, checkOf("k", rule, 3))
	take(t, s, checkOf("k", rule, 1), checkOf("k", other, 1))
	take(t, s, checkOf("k", other, 1))
	client := server.Client(t)
	check.Contains(t, "no notice", client.Get(t.Context(), prefix+"{k}").Val(), "\xfe\xff\xff\xff")
	if left := client.PTTL(t.Context(), prefix+"{k}").Val(); left <= 0 || left > 20*time.Minute+time.Second {
		t.Errorf("the key lives for %v, and the limits are over in 20 minutes", left)
	}
}

// A message that is lost costs no more than the age of a denial; what was given back while the
// connection was down is seen when it is back.
func TestALostConnectionIsMadeGood(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	rule := mustRule(t, core.PerHour(3))
	a := redisstore.New(server.Client(t))
	b := redisstore.New(proxy.Client(t), caching("weblimit:"))
	b.SetListenTimes(forever, 10*time.Millisecond, forever, forever)
	listening(t, b)
	take(t, b, checkOf("k", rule, 3))
	for range 2 {
		take(t, b, checkOf("k", rule, 1))
	}
	proxy.Refuse(true)
	wait.Until(t, "the loss is noticed", func() bool { return !b.Hears() })
	must.OK(t, a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	if r := take(t, b, checkOf("k", rule, 1))[0]; r.Allowed || !r.Cached {
		t.Fatalf("got %+v while nothing is heard, want the cached denial", r)
	}
	proxy.Refuse(false)
	wait.Until(t, "the reset is seen", func() bool { return take(t, b, checkOf("k", rule, 1))[0].Allowed })
}

func TestAKilledSubscriberSubscribesAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := mustRule(t, core.PerHour(3))
	a, b := redisstore.New(server.Client(t)), redisstore.New(server.Client(t), caching(""))
	b.SetListenTimes(forever, time.Millisecond, forever, forever)
	listening(t, b)
	take(t, b, checkOf("k", rule, 3))
	for range 5 {
		for range 2 {
			if r := take(t, b, checkOf("k", rule, 1))[0]; r.Allowed {
				t.Fatalf("got %+v, want a denial", r)
			}
		}
		must.OK(t, server.Client(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		must.OK(t, a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
		wait.Until(t, "the reset is seen", func() bool { return take(t, b, checkOf("k", rule, 3))[0].Allowed })
	}
}

// A connection that neither answers nor ends is replaced.
func TestAConnectionThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	b := redisstore.New(proxy.ClientWith(t, &redis.Options{DialTimeout: time.Second, MaxRetries: -1, ReadTimeout: 100 * time.Millisecond}), caching("weblimit:"))
	b.SetListenTimes(50*time.Millisecond, 10*time.Millisecond, time.Minute, time.Minute)
	listening(t, b)
	proxy.Blackhole(true)
	wait.Until(t, "the silence is noticed", func() bool { return !b.Hears() })
	proxy.Blackhole(false)
	wait.Until(t, "there is another connection", b.Hears)
}

func TestWhereNothingCanBeHeardTheAgeIsTheBoundAndAnEventSaysSo(t *testing.T) {
	t.Parallel()
	as := func(name string, rules ...string) func(t *testing.T) redis.UniversalClient {
		return func(t *testing.T) redis.UniversalClient {
			redistest.Since(t, 6, 2, "channels in ACLs")
			server := redistest.Start(t)
			server.User(t, name, append([]string{"resetkeys", "~*", "-@all", "+evalsha", "+eval", "+time", "+get", "+mget", "+psetex", "+del"}, rules...)...)
			return server.ClientAs(t, name)
		}
	}
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"no SUBSCRIBE": func(t *testing.T) redis.UniversalClient {
			return redistest.Start(t, "--rename-command", "SUBSCRIBE", "").Client(t)
		},
		"no PUBLISH": func(t *testing.T) redis.UniversalClient {
			return redistest.Start(t, "--rename-command", "PUBLISH", "").Client(t)
		},
		"a prefix too long":      func(t *testing.T) redis.UniversalClient { return redistest.Start(t).Client(t) },
		"may not subscribe":      as("deaf", "&*", "+publish"),
		"may not publish":        as("silent", "&*", "+subscribe"),
		"may not on the channel": as("elsewhere", "resetchannels", "&shop:*", "+publish", "+subscribe"),
		"a Ring": func(t *testing.T) redis.UniversalClient {
			server := redistest.Start(t)
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}, NewClient: func(*redis.Options) *redis.Client { return server.Client(t) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			config := redisstore.Config{Prefix: redistest.Prefix(t), DenialCache: redisstore.DenialCache{Age: 50 * time.Millisecond, Size: 64}}
			if name == "a prefix too long" {
				config.Prefix += strings.Repeat("x", 256)
			}
			b := redisstore.New(client, config)
			a := redisstore.New(client, redisstore.Config{Prefix: config.Prefix})
			var mu sync.Mutex
			var events []core.Event
			b.Registry().OnEvent(func(e core.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			})
			rule := mustRule(t, core.PerHour(1))
			for range 4 {
				take(t, b, checkOf("k", rule, 1))
				wait.Until(t, "there is an event", func() bool {
					take(t, b, checkOf("k", rule, 1))
					mu.Lock()
					defer mu.Unlock()
					return len(events) > 0
				})
			}
			if len(events) != 1 || events[0].Kind != redisstore.EventInvalidationOff || events[0].Err == nil {
				t.Errorf("events %v, want one that says what can't be heard", events)
			}
			if b.Hears() {
				t.Error("the store seems to hear")
			}
			must.OK(t, a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
			wait.Until(t, "the age has passed", func() bool { return take(t, b, checkOf("k", rule, 1))[0].Allowed })
		})
	}
}

// RESP2 is enough to listen, and so are the permissions that docs/run/redis.md adds.
func TestListeningNeedsNoMoreThan(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"RESP2": func(t *testing.T) redis.UniversalClient {
			return redistest.Start(t).ClientWith(t, &redis.Options{Protocol: 2})
		},
		"the documented permissions": func(t *testing.T) redis.UniversalClient {
			redistest.Since(t, 6, 2, "channels in ACLs")
			server := redistest.Start(t)
			server.User(t, "weblimit", "resetkeys", "~weblimit:*", "-@all", "+evalsha", "+eval", "+time", "+get", "+mget", "+psetex", "+del", "+publish", "+subscribe", "resetchannels", "&weblimit:*")
			return server.ClientAs(t, "weblimit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, rule := open(t), mustRule(t, core.PerHour(3))
			a, b := redisstore.New(client), redisstore.New(client, caching(""))
			listening(t, b)
			take(t, a, checkOf("k", rule, 3))
			take(t, b, checkOf("k", rule, 1))
			must.OK(t, a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
			wait.Until(t, "the other process sees it", func() bool { return take(t, b, checkOf("k", rule, 1))[0].Allowed })
		})
	}
}

func TestTheListenerEndsWithoutDenialsWithTheClientAndWithTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ping := 20 * time.Millisecond
	client := server.Client(t)
	subscribers := func() int64 {
		return client.PubSubNumSub(t.Context(), "weblimit:given-back").Val()["weblimit:given-back"]
	}

	// Its denials are over before the listener is idle, as they are outside of tests: else one could be
	// repeated for as long as nobody listens.
	idle := redisstore.New(server.Client(t), redisstore.Config{DenialCache: redisstore.DenialCache{Age: ping, Size: 64}})
	idle.SetListenTimes(ping, ping, time.Minute, 100*time.Millisecond)
	listening(t, idle)
	wait.Until(t, "an idle listener ends", func() bool { return !idle.Listens() && !idle.Hears() })
	wait.Until(t, "its connection ends", func() bool { return subscribers() == 0 })
	wait.Until(t, "it begins again", func() bool {
		take(t, idle, checkOf("listening", mustRule(t, core.PerHour(1).Named("listening")), 2))
		return idle.Hears()
	})
	wait.Until(t, "it ends again", func() bool { return !idle.Listens() && subscribers() == 0 })

	closing := redis.NewClient(server.Client(t).Options())
	closed := redisstore.New(closing, caching(""))
	closed.SetListenTimes(ping, ping, time.Minute, time.Minute)
	listening(t, closed)
	_ = closing.Close()
	wait.Until(t, "the listener ends with the client", func() bool { return !closed.Listens() })

	dropped := server.Client(t)
	func() {
		s := redisstore.New(dropped, caching(""))
		s.SetListenTimes(ping, ping, time.Minute, time.Minute)
		listening(t, s)
	}()
	wait.Until(t, "the listener ends with the store", func() bool { runtime.GC(); return subscribers() == 0 })
}

// A denial is no error where Redis can't write the notice: the limit's outage action could let the
// request pass.
func TestADenialHoldsWhereRedisRefusesToWrite(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*redistest.Server){
		"out of memory": func(s *redistest.Server) { s.FillMemory(t) },
		"a replica":     func(s *redistest.Server) { s.ReadOnly(t) },
	} {
		server := redistest.Start(t)
		b := redisstore.New(server.Client(t), caching(""))
		listening(t, b)
		one, two := mustRule(t, core.PerHour(3)), mustRule(t, core.PerHour(5).Named("two"))
		take(t, b, checkOf("k", one, 3), checkOf("l", two, 1))
		refuse(server)
		for _, checks := range [][]core.Check{{checkOf("k", one, 1)}, {checkOf("k", one, 1), checkOf("l", two, 1)}} {
			results := make([]core.Result, len(checks))
			if err := b.Take(t.Context(), checks, results); err != nil || results[0].Allowed {
				t.Errorf("%s: got %+v, %v; want a denial", name, results[0], err)
			}
		}
	}
}
