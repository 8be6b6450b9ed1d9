package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a goal of weblimit, and what this run reached.
type target struct {
	what string
	want float64
	most bool // want is an upper bound, not a lower one
	got  float64
	by   string // the peer it was compared with, or the method
	unit string
}

func (t target) met() bool {
	if t.most {
		return t.got <= t.want
	}
	return t.got >= t.want
}

// missed returns by what part of the goal the run missed it.
func (t target) missed() float64 {
	if t.most {
		return t.got/t.want - 1
	}
	return 1 - t.got/t.want
}

// targetTable says of each target whether this run reached it.
func (all *results) targetTable() string {
	var b strings.Builder
	b.WriteString("| | target | measured | |\n|---|---:|---:|---|\n")
	for _, t := range all.targets() {
		sign, verdict := "≥", "met"
		if t.most {
			sign = "≤"
		}
		if !t.met() {
			verdict = fmt.Sprintf("**missed** by %.0f %%", 100*t.missed())
		}
		measured := amount(t.got) + t.unit
		if t.by != "" {
			measured += " (" + t.by + ")"
		}
		fmt.Fprintf(&b, "| %s | %s %s%s | %s | %s |\n", t.what, sign, amount(t.want), t.unit, measured, verdict)
	}
	return b.String()
}

// amount writes a number with its significant digits.
func amount(v float64) string {
	if v >= 10 {
		return thousands(v)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

// targets are the goals that the run has figures for.
func (all *results) targets() []target {
	var ts []target
	add := func(t target, rows ...string) {
		for _, r := range rows {
			if !all.has(r) {
				return
			}
		}
		ts = append(ts, t)
	}
	least := func(what string, want float64, c column, peer string) {
		got, by := 0.0, ""
		if peer == "" {
			got, peer = all.best(c)
			by = peer
		} else {
			got = all.faster(c.scenario(ours), c.scenario(peer))
		}
		add(target{what: what, want: want, got: got, by: by, unit: "×"}, c.scenario(ours), c.scenario(peer))
	}
	hot := func(n int) column { return redisColumn("1-key", n, "allow") }
	many := func(n int) column { return redisColumn("100k-keys", n, "allow") }

	least("Redis, 1 key, 64 at a time: the best of all", 2.3, hot(64), "")
	least("Redis, 1 key, 256 at a time: the best of all", 4, hot(256), "")
	for _, n := range []int{64, 256} {
		least(fmt.Sprintf("Redis, 1 key, %d at a time: ulule", n), 4, hot(n), "ulule")
		least(fmt.Sprintf("Redis, 1 key, %d at a time: redis_rate", n), 5, hot(n), "redis_rate")
	}
	least("Redis, 100k keys, 64 at a time: the best of all", 1.3, many(64), "")
	least("Redis, 100k keys, 256 at a time: the best of all", 2, many(256), "")
	least("Redis, 100k keys, 256 at a time: ulule", 3, many(256), "ulule")
	least("Redis, 1 key, 16 at a time: the best of all", 1.2, hot(16), "")
	least("Redis, 100k keys, 16 at a time: the best of all", 1.1, many(16), "")
	five := many(256).scenario("weblimit-5")
	add(target{what: "Redis, 100k keys, 256 at a time, five limits of each: of the rate with one limit", want: 0.65, got: all.faster(five, many(256).scenario(ours)), unit: "×"}, five, many(256).scenario(ours))
	for _, n := range []string{"64", "256"} {
		for _, keys := range []string{"1-key", "100k-keys"} {
			store, floor := "Check/store/"+keys+"/"+n, "Check/floor/"+keys+"/"+n
			add(target{what: "Redis, " + strings.ReplaceAll(keys, "-", " ") + ", " + n + " at a time: the store's processor time, of the smallest program's", want: 1.1, most: true, got: all.value(store, "cpu-µs/op") / all.value(floor, "cpu-µs/op"), unit: "×"}, store, floor)
		}
	}
	for _, outage := range []string{"told", "10000_others_untold"} {
		before, after := "AfterAnOutage/without/256", "AfterAnOutage/"+outage+"/256"
		add(target{what: "Redis, 1 key, 256 at a time after an outage, " + strings.ReplaceAll(outage, "_", " ") + ": of the rate without one", want: 1 / enough, got: all.faster(after, before), unit: "×"}, after, before)
	}
	add(target{what: "idle: p50 of one caller, of a plain EVALSHA", want: 1.05, most: true, got: all.value("Idle/weblimit", "ratio"), unit: "×"}, "Idle/weblimit")
	// "In order of magnitude of two": below twenty.
	for _, keys := range []string{"1-key", "1000-keys"} {
		row := "Burst/weblimit/" + keys
		add(target{what: "1,000 callers at once, " + strings.ReplaceAll(keys, "-", " ") + ": round trips that follow each other", want: 20, most: true, got: all.value(row, "reads") / 4}, row)
		add(target{what: "the same: time until the last is served, in round trips", want: 20, most: true, got: all.value(row, "round-trips")}, row)
	}
	for _, keys := range []string{"1-key", "100k-keys"} {
		c := redisColumn(keys, 64, "allow")
		mine, theirs := c.scenario(ours), c.scenario("redis_rate")
		add(target{what: "Redis, " + strings.ReplaceAll(keys, "-", " ") + ", 64 at a time: p99, of redis_rate's", want: 0.5, most: true, got: all.value(mine, "p99-µs") / all.value(theirs, "p99-µs"), unit: "×"}, mine, theirs)
	}
	script := func(peer string) float64 { return all.value("Cost/"+peer+"/allow", "redis-script-µs/op") }
	add(target{what: "Redis's time in scripts per check, one limit, not batched", want: 4, most: true, got: script(ours), unit: " µs"}, "Cost/weblimit/allow")
	add(target{what: "the same, three limits of one key", want: 6.5, most: true, got: script("weblimit-3"), unit: " µs"}, "Cost/weblimit-3/allow")
	bytes := func(peer string) float64 { return all.value("Cost/"+peer+"/allow", "redis-B/key") }
	add(target{what: "bytes in Redis per key, one limit", want: 120, most: true, got: bytes(ours)}, "Cost/weblimit/allow")
	add(target{what: "the same, five limits of one key", want: 180, most: true, got: bytes("weblimit-5")}, "Cost/weblimit-5/allow")
	denied := redisColumn("1-key", 64, "deny")
	least("Redis, 1 key denied, 64 at a time: the best of all", 20, denied, "")
	add(target{what: "the same: calls of Redis per 1,000 checks", want: 1, most: true, got: 1000 * all.value(denied.scenario(ours), "redis-calls/op")}, denied.scenario(ours))
	for _, c := range []column{hot(64), many(64)} {
		row := c.scenario(ours)
		add(target{what: "allocations of the client per check, " + strings.ReplaceAll(strings.Split(row, "/")[2], "-", " ") + ", 64 at a time", want: 2, most: true, got: all.value(row, "allocs/op")}, row)
	}
	for i, most := range []float64{90, 130, 260} {
		c := memoryColumns()[i]
		least("memory, "+c.title+": the best of all", 1.1, c, "")
		add(target{what: "memory, " + c.title, want: most, most: true, got: 1e9 / all.perSecond(c.scenario(ours)), unit: " ns"}, c.scenario(ours))
	}
	million := memoryColumns()[2].scenario(ours)
	// The key is a copy of its own: 12 bytes, for which Go takes 16.
	add(target{what: "memory: bytes per key beside the key's own", want: 64, most: true, got: all.value(million, "B/key") - 16}, million)
	for _, f := range all.frameworks() {
		most := 450.0
		if f == "gin" || f == "net-http" {
			most = 350
		}
		row := middlewareColumn(f).scenario(ours)
		add(target{what: "middleware, " + f, want: most, most: true, got: all.value(row, "ns/op"), unit: " ns"}, row)
		add(target{what: "middleware, " + f + ": allocations", want: 3, most: true, got: all.value(row, "allocs/op")}, row)
	}
	return ts
}

// sketches are what weblimit's own ideas can reach at best, and so nobody's limiter or client.
var sketches = []string{"combiner", "floor", "floor-context", "floor-no-headers"}

// best returns weblimit's smallest lead over its peers, and that peer.
func (all *results) best(c column) (ratio float64, peer string) {
	for _, p := range all.peers {
		if row := c.scenario(p.Name); !own(p.Name) && !slices.Contains(sketches, p.Name) && all.has(row) && all.has(c.scenario(ours)) {
			if r := all.faster(c.scenario(ours), row); peer == "" || r < ratio {
				ratio, peer = r, p.Name
			}
		}
	}
	return ratio, peer
}
