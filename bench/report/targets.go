package main

import (
	"fmt"
	"strings"
)

// target is a goal of weblimit, and what this run reached.
type target struct {
	what  string
	want  float64
	most  bool // want is an upper bound, not a lower one
	got   float64
	by    string // the peer it was compared with, or the method
	unit  string
	least float64 // what the smallest program of its kind reached in the same run; 0 if there is none
}

func (t target) met() bool { return t.reaches(t.got) }

// reaches reports whether a figure meets the goal.
func (t target) reaches(got float64) bool {
	if t.most {
		return got <= t.want
	}
	return got >= t.want
}

// missed returns by what part of the goal the run missed it.
func (t target) missed() float64 {
	if t.most {
		return t.got/t.want - 1
	}
	return 1 - t.got/t.want
}

// verdict says whether the goal is met, and whether anything could meet it on this machine.
func (t target) verdict() string {
	switch {
	case t.met():
		return "met"
	case t.least != 0 && !t.reaches(t.least):
		return fmt.Sprintf("missed by %.0f %%, and by the smallest program", 100*t.missed())
	}
	return fmt.Sprintf("**missed** by %.0f %%", 100*t.missed())
}

// targetTable says of each target whether this run reached it.
func (all *results) targetTable() string {
	var b strings.Builder
	b.WriteString("| | target | measured | smallest program | |\n|---|---:|---:|---:|---|\n")
	for _, t := range all.targets() {
		sign, least := "≥", "–"
		if t.most {
			sign = "≤"
		}
		if t.least != 0 {
			least = amount(t.least) + t.unit
		}
		measured := amount(t.got) + t.unit
		if t.by != "" {
			measured += " (" + t.by + ")"
		}
		fmt.Fprintf(&b, "| %s | %s %s%s | %s | %s | %s |\n", t.what, sign, amount(t.want), t.unit, measured, least, t.verdict())
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

// goals collects targets of which the run has figures.
type goals struct {
	*results
	found []target
}

// targets are the goals that the run has figures for.
func (all *results) targets() []target {
	g := &goals{results: all}
	g.onRedis()
	g.underLoad()
	g.inRedis()
	g.inMemory()
	g.ofMiddleware()
	return g.found
}

// add adds a target if the run has all these rows.
func (g *goals) add(t target, rows ...string) {
	for _, r := range rows {
		if !g.has(r) {
			return
		}
	}
	g.found = append(g.found, t)
}

// beside adds how many times as fast weblimit is as a peer, or as the best limiter if that is "". The
// smallest program is a sketch.
func (g *goals) beside(what string, want float64, c column, peer, sketch string) {
	got, by := 0.0, ""
	if peer == "" {
		got, peer = g.best(c)
		by = peer
	} else {
		got = g.faster(c.scenario(ours), c.scenario(peer))
	}
	g.add(target{what: what, want: want, got: got, by: by, unit: "×", least: g.faster(c.scenario(sketch), c.scenario(peer))}, c.scenario(ours), c.scenario(peer))
}

// onRedis adds how many checks per second there are.
func (g *goals) onRedis() {
	hot := func(n int) column { return redisColumn("1-key", n, "allow") }
	many := func(n int) column { return redisColumn("100k-keys", n, "allow") }
	for _, t := range []struct {
		callers   int
		hot, many float64
	}{{16, 1.1, 1}, {64, 2.3, 1.8}, {256, 6, 2.5}} {
		g.beside(fmt.Sprintf("Redis, 1 key, %d at a time: the best limiter", t.callers), t.hot, hot(t.callers), "", "combiner-exact")
		g.beside(fmt.Sprintf("Redis, 100k keys, %d at a time: the best limiter", t.callers), t.many, many(t.callers), "", "combiner-exact")
	}
	for _, n := range []int{64, 256} {
		g.beside(fmt.Sprintf("Redis, 1 key, %d at a time: ulule", n), 4, hot(n), "ulule", "combiner-exact")
		g.beside(fmt.Sprintf("Redis, 1 key, %d at a time: redis_rate", n), 5, hot(n), "redis_rate", "combiner-exact")
	}
	g.beside("Redis, 100k keys, 256 at a time: ulule", 3, many(256), "ulule", "combiner-exact")
	five := many(256).scenario("weblimit-5")
	g.add(target{what: "Redis, 100k keys, 256 at a time, five limits of each: of the rate with one limit", want: 0.65, got: g.faster(five, many(256).scenario(ours)), unit: "×"}, five, many(256).scenario(ours))
	for _, n := range []string{"64", "256"} {
		for _, keys := range []string{"1-key", "100k-keys"} {
			store, floor := "Check/store/"+keys+"/"+n, "Check/floor/"+keys+"/"+n
			g.add(target{what: "Redis, " + strings.ReplaceAll(keys, "-", " ") + ", " + n + " at a time: the store's processor time, of the smallest program's", want: 1.1, most: true, got: g.value(store, "cpu-µs/op") / g.value(floor, "cpu-µs/op"), unit: "×"}, store, floor)
		}
	}
	for _, c := range []column{hot(64), many(64)} {
		row := c.scenario(ours)
		g.add(target{what: "allocations of the client per check, " + strings.ReplaceAll(strings.Split(row, "/")[2], "-", " ") + ", 64 at a time", want: 2, most: true, got: g.value(row, "allocs/op")}, row)
	}
	denied := redisColumn("1-key", 64, "deny")
	g.beside("Redis, 1 key denied, 64 at a time: the best limiter", 20, denied, "", "combiner-exact")
	g.add(target{what: "the same: calls of Redis per 1,000 checks", want: 1, most: true, got: 1000 * g.value(denied.scenario(ours), "redis-calls/op")}, denied.scenario(ours))
}

// underLoad adds what happens at the edges: idle, at once, after an outage.
func (g *goals) underLoad() {
	for _, outage := range []string{"told", "10000_others_untold"} {
		before, after := "AfterAnOutage/without/256", "AfterAnOutage/"+outage+"/256"
		g.add(target{what: "Redis, 1 key, 256 at a time after an outage, " + strings.ReplaceAll(outage, "_", " ") + ": of the rate without one", want: 1 / enough, got: g.faster(after, before), unit: "×"}, after, before)
	}
	g.add(target{what: "idle: p50 of one caller, of a plain EVALSHA", want: 1.05, most: true, got: g.value("Idle/weblimit", "ratio"), unit: "×"}, "Idle/weblimit")
	// "In order of magnitude of two": below twenty.
	for _, keys := range []string{"1-key", "1000-keys"} {
		row := "Burst/weblimit/" + keys
		g.add(target{what: "1,000 callers at once, " + strings.ReplaceAll(keys, "-", " ") + ": round trips that follow each other", want: 20, most: true, got: g.value(row, "reads") / 4}, row)
		g.add(target{what: "the same: time until the last is served, in round trips", want: 20, most: true, got: g.value(row, "round-trips")}, row)
	}
	for _, keys := range []string{"1-key", "100k-keys"} {
		c := redisColumn(keys, 64, "allow")
		mine, theirs := c.scenario(ours), c.scenario("redis_rate")
		g.add(target{what: "Redis, " + strings.ReplaceAll(keys, "-", " ") + ", 64 at a time: p99, of redis_rate's", want: 0.5, most: true, got: g.value(mine, "p99-µs") / g.value(theirs, "p99-µs"), unit: "×"}, mine, theirs)
	}
}

// scripts are the benchmarks of scripts within Redis that are read here: ours, and the shortest that decide as exactly.
var scripts = []string{"one", "plain_GCRA", "64_keys_in_a_call", "plain_GCRAs_of_64_keys_in_a_call"}

// inRedis adds what a check takes of Redis.
func (g *goals) inRedis() {
	for i, what := range []string{"Redis's time in the script, a check in a call of its own: of the shortest exact script's", "the same, 64 checks in a call"} {
		mine, shortest := "Script/"+scripts[2*i], "Script/"+scripts[2*i+1]
		g.add(target{what: what, want: 1.15, most: true, got: g.value(mine, "redis-script-µs/op") / g.value(shortest, "redis-script-µs/op"), unit: "×"}, mine, shortest)
	}
	bytes := func(peer string) float64 { return g.value("Cost/"+peer+"/allow", "redis-B/key") }
	g.add(target{what: "bytes in Redis per key, one limit", want: 120, most: true, got: bytes(ours)}, "Cost/weblimit/allow")
	g.add(target{what: "the same, five limits of one key", want: 180, most: true, got: bytes("weblimit-5")}, "Cost/weblimit-5/allow")
}

// inMemory adds the targets of the store in memory.
func (g *goals) inMemory() {
	columns := memoryColumns()
	g.beside("memory, 1 key: go-limiter", 1.1, columns[0], "go-limiter", "floor")
	for _, c := range columns[1:] {
		g.beside("memory, "+c.title+": the best limiter", 1.3, c, "", "floor")
	}
	million := columns[2].scenario(ours)
	// The key is a copy of its own: 12 bytes, for which Go takes 16.
	g.add(target{what: "memory: bytes per key beside the key's own", want: 64, most: true, got: g.value(million, "B/key") - 16}, million)
}

// ofMiddleware adds the targets of the adapters.
func (g *goals) ofMiddleware() {
	for _, f := range []string{"net-http", "gin"} {
		mine, floor := middlewareColumn(f).scenario(ours), middlewareColumn(f).scenario("floor-context")
		g.add(target{what: "middleware, " + f + ": time, of the smallest's that handlers can read", want: 1.25, most: true, got: g.value(mine, "ns/op") / g.value(floor, "ns/op"), unit: "×"}, mine, floor)
	}
	g.beside("middleware, echo, with headers: its own, without", 0.8, middlewareColumn("echo"), "echo", "floor-context")
	g.beside("middleware, fiber: its own", 1.1, middlewareColumn("fiber"), "fiber", "floor")
	for _, f := range g.frameworks() {
		row := middlewareColumn(f).scenario(ours)
		g.add(target{what: "middleware, " + f + ": allocations", want: 3, most: true, got: g.value(row, "allocs/op")}, row)
	}
}

// best returns weblimit's smallest lead over other limiters, and that limiter.
func (all *results) best(c column) (ratio float64, name string) {
	if closest := all.limiters(c); len(closest) > 0 {
		return closest[0].times, closest[0].Name
	}
	return 0, ""
}
