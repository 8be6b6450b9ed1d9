package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// What others have written in place of the list of instances: some of it kept Redis busy for minutes, and some of it
// kept all instances from publishing for ever.
func TestAListThatNoInstanceHasWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // of its own: it was busy for minutes
	client := server.Client(t)
	for i, list := range []string{
		strings.Repeat("x", 79_000),
		strings.Repeat("x", 10<<20),
		strings.Repeat("x ", 39_000),
		strings.Repeat("x 1\n", 19_000),
		strings.Repeat("9", 79_000) + " 1\n",
		"inf " + strings.Repeat("9", 400) + "\n",
		"year-3000 32503680000000\n",
		"\x1b[2J 32503680000000\n\x00\n \n\n",
		strings.Repeat("y", 70) + " 32503680000000\n",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix(t)
			e := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
			key := prefix + "{#exchange}:instances"
			must.OK(t, client.Set(t.Context(), key, list, 0).Err())
			publish(t, e, "a", "of a", time.Minute)
			publish(t, e, "b", "of b", time.Minute)
			check.Slices(t, "collected", collected(t, e), []string{"of a", "of b"})
			check.Equal(t, "lines of the list", strings.Count(client.Get(t.Context(), key).Val(), "\n"), 2)
			if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
				t.Errorf("the list expires in %v", ttl)
			}
		})
	}
}

// Keys of another type, by an application that shares the prefix, stand in the way of nothing.
func TestKeysOfTheExchangeOfAnotherType(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	e := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
	for _, name := range []string{"instances", "of:a", "agreed"} {
		must.OK(t, client.LPush(t.Context(), prefix+"{#exchange}:"+name, "x").Err())
	}
	if got := collected(t, e); got != nil {
		t.Errorf("collected %q", got)
	}
	publish(t, e, "a", "of a", time.Minute)
	check.Slices(t, "collected", collected(t, e), []string{"of a"})
	secret := must.Get(e.Agree(t.Context(), []byte("0123456789abcdef")))(t)
	check.Equal(t, "agreed on", string(secret), "0123456789abcdef")
	must.OK(t, client.Set(t.Context(), prefix+"{#exchange}:agreed", strings.Repeat("x", 1<<20), 0).Err())
	secret = must.Get(e.Agree(t.Context(), []byte("0123456789abcdef")))(t)
	check.Equal(t, "agreed on, after another wrote a megabyte", string(secret), "0123456789abcdef")
}

// A value that is too long does not leave Redis: it was read first, and left out then.
func TestValuesThatAreTooLongAreNotRead(t *testing.T) {
	t.Parallel()
	prefix, client := redistest.Prefix(t), redistest.Start(t).Client(t)
	e := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
	publish(t, e, "a", "of a", time.Minute)
	publish(t, e, "b", "of b", time.Minute)
	must.OK(t, client.Set(t.Context(), prefix+"{#exchange}:of:b", strings.Repeat("x", 16<<20), time.Minute).Err())
	before := work(t, client)["total_net_output_bytes"]
	check.Slices(t, "collected", collected(t, e), []string{"of a"})
	must.OK(t, client.Set(t.Context(), prefix+"{#exchange}:instances", strings.Repeat("a 1\n", 1<<20), time.Minute).Err())
	check.Equal(t, "collected by a long list", len(collected(t, e)), 0)
	for _, value := range []any{strings.Repeat("x", 16<<20), 7} {
		must.OK(t, client.Del(t.Context(), prefix+"{#exchange}:swap:a").Err())
		if text, ok := value.(string); ok {
			must.OK(t, client.Set(t.Context(), prefix+"{#exchange}:swap:a", text, time.Minute).Err())
		} else {
			must.OK(t, client.LPush(t.Context(), prefix+"{#exchange}:swap:a", value).Err())
		}
		swap := redisstore.New(client, redisstore.Config{Prefix: prefix}).Registry().Server().Swap
		found := must.Get(swap(t.Context(), []string{"a"}, []string{"mine"}, time.Minute))(t)
		check.Equal(t, "bytes of what is found where others wrote a value too long, or of another type", len(found[0]) <= 1024, true)
		found = must.Get(swap(t.Context(), []string{"a"}, []string{"mine"}, time.Minute))(t)
		check.Slices(t, "what is found then", found, []string{"mine"})
	}
	if n := work(t, client)["total_net_output_bytes"] - before; n > 1<<20 {
		t.Errorf("%d bytes were read", n)
	}
}
