package main

import (
	"fmt"
	"slices"
	"strings"
)

// own reports whether a peer is one of ours.
func own(peer string) bool { return strings.HasPrefix(peer, ours) }

// endToEnd is requests per second of Gin servers.
func (all *results) endToEnd() string {
	var b strings.Builder
	b.WriteString("| | requests/s | of the server without | p50 / p99, µs |\n|---|---:|---:|---:|\n")
	const bare = "EndToEnd/bare/none"
	write := func(title, name string) {
		if all.has(name) {
			fmt.Fprintf(&b, "| %s | %s | %.0f %% | %s / %s |\n", title, thousands(all.perSecond(name)), 100*all.faster(name, bare),
				thousands(all.value(name, "p50-µs")), thousands(all.value(name, "p99-µs")))
		}
	}
	write("*no middleware*", bare)
	for _, where := range []string{"memory", "redis"} {
		for _, p := range all.peers {
			title := p.Name
			if p.Name == ours {
				title = "**" + ours + "**"
			}
			write(title+", "+where, "EndToEnd/"+p.Name+"/"+where)
		}
	}
	return b.String()
}

// idle is one caller beside a plain call.
func (all *results) idle() string {
	var b strings.Builder
	b.WriteString("| | p50, µs | plain EVALSHA of the same call, µs | ratio |\n|---|---:|---:|---:|\n")
	for _, p := range all.peers {
		if name := "Idle/" + p.Name; all.has(name) {
			fmt.Fprintf(&b, "| %s | %s | %s | %.3f |\n", p.Name, micros(all.value(name, "p50-µs")), micros(all.value(name, "plain-µs")), all.value(name, "ratio"))
		}
	}
	return b.String()
}

// burst is how long the last of a thousand waits.
func (all *results) burst() string {
	columns := []column{
		{"all of one key", func(peer string) string { return "Burst/" + peer + "/1-key" }},
		{"each of its own", func(peer string) string { return "Burst/" + peer + "/1000-keys" }},
	}
	cell := func(name string, _ column) string {
		s := fmt.Sprintf("%s ms = %.0f; %s", fixed(all.value(name, "ns/op")/1e6), all.value(name, "round-trips"), thousands(all.value(name, "reads")))
		if e := all.value(name, "errors/op"); e >= manyErrors {
			s += ", " + percent(e) + " failed"
		}
		return s
	}
	table := all.table(columns, nil, cell, nil)
	if all.has("Burst/nobody/1-key") {
		table += "| *nobody asked* |"
		for _, c := range columns {
			table += " " + fixed(all.value(c.scenario("nobody"), "ns/op")/1e6) + " ms |"
		}
		table += "\n"
	}
	return table
}

// fairness is how a crowd that asks for one key affects others.
func (all *results) fairness() string {
	var b strings.Builder
	for _, p := range all.peers {
		if name := "Fairness/" + p.Name; all.has(name) {
			fmt.Fprintf(&b, "| %s | %s | %s / %s |\n", p.Name, fixed(all.value(name, "share")), thousands(all.value(name, "crowd-p99-µs")), thousands(all.value(name, "own-p99-µs")))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "| | share | p99 of the crowd / of the others, µs |\n|---|---:|---:|\n" + b.String()
}

// afterOutage is what a check costs once Redis answers again.
func (all *results) afterOutage() string {
	var b strings.Builder
	for _, outage := range []string{"without", "told", "10000_others_untold"} {
		if !all.has("AfterAnOutage/" + outage + "/16") {
			return ""
		}
		fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(outage, "_", " "))
		for _, n := range []string{"16", "64", "256"} {
			name := "AfterAnOutage/" + outage + "/" + n
			fmt.Fprintf(&b, " %s / %s |", thousands(all.perSecond(name)), fixed(all.value(name, "client-cpu-µs/op")))
		}
		b.WriteByte('\n')
	}
	return "| | 16 at a time | 64 | 256 |\n|---|---:|---:|---:|\n" + b.String()
}

// floor compares a check by the store with one by the smallest program that asks the same.
func (all *results) floor() string {
	var b strings.Builder
	for _, program := range []string{"store", "floor"} {
		if !all.has("Check/" + program + "/1-key/16") {
			return ""
		}
		fmt.Fprintf(&b, "| %s |", map[string]string{"store": "`redisstore.Store`", "floor": "smallest program"}[program])
		for _, keys := range []string{"1-key", "100k-keys"} {
			for _, n := range []string{"16", "64", "256"} {
				name := "Check/" + program + "/" + keys + "/" + n
				fmt.Fprintf(&b, " %s / %s |", fixed(all.value(name, "cpu-µs/op")), thousands(all.value(name, "B/op")))
			}
		}
		b.WriteByte('\n')
	}
	return "| | 1 key, 16 at a time | 64 | 256 | 100,000 keys, 16 at a time | 64 | 256 |\n|---|---:|---:|---:|---:|---:|---:|\n" + b.String()
}

// clientCPU is the processor time of the client.
func (all *results) clientCPU() string {
	var columns []column
	for _, keys := range []string{"1-key", "100k-keys"} {
		columns = append(columns, redisColumns(keys, "allow")...)
	}
	if !slices.ContainsFunc(all.peers, func(p peer) bool { return all.value(columns[0].scenario(p.Name), "client-cpu-µs/op") > 0 }) {
		return "" // results of an earlier version
	}
	return all.table(columns, nil, func(name string, _ column) string { return fixed(all.value(name, "client-cpu-µs/op")) }, nil)
}

func fixed(v float64) string { return fmt.Sprintf("%.2f", v) }

// breakers is what circuit breakers cost.
func (all *results) breakers() string {
	var b strings.Builder
	b.WriteString("| | closed, ns | open, ns | allocations |\n|---|---:|---:|---:|\n")
	var seen []string
	for _, name := range all.names {
		rest, ok := strings.CutPrefix(name, "Breaker/")
		library, _, _ := strings.Cut(rest, "/")
		if !ok || slices.Contains(seen, library) {
			continue
		}
		seen = append(seen, library)
		closed, open := "Breaker/"+library+"/closed", "Breaker/"+library+"/open"
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", library, thousands(all.value(closed, "ns/op")), thousands(all.value(open, "ns/op")), thousands(all.value(closed, "allocs/op")))
	}
	return b.String()
}

// pipelines compares the queue of weblimit with the pipeliner of go-redis.
func (all *results) pipelines() string {
	var b strings.Builder
	b.WriteString("| | weblimit | go-redis-auto | go-redis-duplex |\n|---|---:|---:|---:|\n")
	for _, keys := range []string{"1-key", "100k-keys"} {
		for _, n := range goroutines {
			c := redisColumn(keys, n, "allow")
			fmt.Fprintf(&b, "| %s, %d at a time: checks/s |", strings.ReplaceAll(keys, "-", " "), n)
			for _, p := range []string{ours, "go-redis-auto", "go-redis-duplex"} {
				row := c.scenario(p)
				fmt.Fprintf(&b, " %s%s |", thousands(all.perSecond(row)), all.ratio(row, c))
			}
			b.WriteByte('\n')
		}
	}
	for _, unit := range []struct{ title, unit string }{
		{"script calls per check", "redis-calls/op"}, {"Redis µs per check", "redis-cpu-µs/op"}, {"allocations", "allocs/op"},
	} {
		fmt.Fprintf(&b, "| 1 key, 64 at a time: %s |", unit.title)
		for _, p := range []string{ours, "go-redis-auto", "go-redis-duplex"} {
			fmt.Fprintf(&b, " %.2f |", all.value(redisColumn("1-key", 64, "allow").scenario(p), unit.unit))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
