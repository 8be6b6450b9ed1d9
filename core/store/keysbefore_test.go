package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestKeysBefore(t *testing.T) {
	t.Parallel()
	r := new(store.Registry)
	by := func(keys string) []store.Declaration {
		d := declaration(t, "a", 5)
		d.Keys = keys
		return []store.Declaration{d}
	}
	now := by("ip")
	must.OK(t, r.Register(now...))
	step := func(what, keys, want string) {
		t.Helper()
		next := []store.Declaration(nil)
		if keys != "" {
			next = by(keys)
		}
		must.OK(t, r.Replace(now, next))
		now = next
		check.Equal(t, what, strings.Join(r.View().KeysBefore("a"), " "), want)
	}
	step("the same keys", "ip", "")
	step("another key", "user", "ip")
	step("once more", "user", "ip")
	step("back again", "ip", "user")
	step("a third", "tenant", "user ip")
	step("none", "", "user ip tenant")
	step("a limit that comes back", "ip", "user tenant")
	for i := range 10 {
		next := by(fmt.Sprintf("header.x-%d", i))
		must.OK(t, r.Replace(now, next))
		now = next
	}
	check.Equal(t, "of many, the last ones", strings.Join(r.KeysBefore("a"), " "), "header.x-5 header.x-6 header.x-7 header.x-8")
}

// A file of many limits that is loaded again forgets nothing of the few that have changed.
func TestKeysBeforeAmongManyLimits(t *testing.T) {
	t.Parallel()
	r := new(store.Registry)
	all := func(keys string) []store.Declaration {
		list := make([]store.Declaration, 10_000)
		for i := range list {
			list[i] = declaration(t, fmt.Sprint("limit-", i), 5)
		}
		list[0].Keys = keys
		return list
	}
	first, second, third := all("ip"), all("user"), all("user")
	must.OK(t, r.Register(first...))
	must.OK(t, r.Replace(first, second))
	must.OK(t, r.Replace(second, third))
	check.Equal(t, "keys before", strings.Join(r.KeysBefore("limit-0"), " "), "ip")
	check.Equal(t, "keys before of others", len(r.KeysBefore("limit-1")), 0)
	must.OK(t, r.Replace(third, nil))
	check.Equal(t, "of limits that are gone, a bounded number is remembered", len(r.KeysBefore("limit-0")) <= 1, true)
}
