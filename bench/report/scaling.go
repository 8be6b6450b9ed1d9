package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	scalingBegins = "<!-- figures of the last `make bench` begin -->\n"
	scalingEnds   = "<!-- figures of the last `make bench` end -->\n"

	// busy is the part of a Redis core to plan with. Above it, callers wait for each
	// other.
	busy = 0.6
)

// scaled returns a page in which the figures of this run stand between the two marks.
func (all *results) scaled(page []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(page, []byte(scalingBegins))
	_, after, ends := bytes.Cut(rest, []byte(scalingEnds))
	if !begins || !ends {
		return nil, errors.New("the page has no marks to put figures between")
	}
	return []byte(string(before) + scalingBegins + all.scaling() + scalingEnds + string(after)), nil
}

// load is a pattern of checks, and its cost in Redis.
type load struct {
	title, row string
	hot        bool
}

var loads = []load{
	{"any keys, one check at a time", "Redis/weblimit/100k-keys/1/allow", false},
	{"any keys, 64 at a time", "Redis/weblimit/100k-keys/64/allow", false},
	{"any keys, 256 at a time", "Redis/weblimit/100k-keys/256/allow", false},
	{"any keys, three limits each, 64 at a time", "Redis/weblimit-3/100k-keys/64/allow", false},
	{"one key, 64 at a time", "Redis/weblimit/1-key/64/allow", true},
	{"one key, 256 at a time", "Redis/weblimit/1-key/256/allow", true},
	{"denied again within a second, 64 at a time", "Redis/weblimit/1-key/64/deny", true},
}

// scaling is the figures that capacity is planned by.
func (all *results) scaling() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s, %s processors for client and Redis together, Redis %s, medians of %s rounds, %s.\n",
		all.config["cpu"], all.config["procs"], all.config["redis"], all.rounds(), all.config["date"])

	b.WriteString("\n| checks | Redis, µs of a core per check = core seconds per million | most that one Redis core can do, per second | planned at 60 %, per second |\n|---|---:|---:|---:|\n")
	for _, l := range loads {
		if cpu := all.value(l.row, "redis-cpu-µs/op"); cpu >= 0.1 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.title, fixed(cpu), thousands(1e6/cpu), thousands(busy*1e6/cpu))
		} else if all.has(l.row) {
			fmt.Fprintf(&b, "| %s | below 0.1 | not Redis's to say | – |\n", l.title)
		}
	}

	b.WriteString("\n| limits of each key | bytes per key | 1 million keys | 10 million | 100 million |\n|---|---:|---:|---:|---:|\n")
	for _, l := range []struct{ title, row string }{
		{"one", "Cost/weblimit/allow"}, {"three", "Cost/weblimit-3/allow"}, {"five", "Cost/weblimit-5/allow"},
	} {
		if used := all.value(l.row, "redis-used-B/key"); used > 0 {
			fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s |\n", l.title, used, gigabytes(used*1e6), gigabytes(used*1e7), gigabytes(used*1e8))
		}
	}

	single, batched := all.value("Redis/weblimit/100k-keys/1/allow", "redis-cpu-µs/op"), all.value("Redis/weblimit/100k-keys/64/allow", "redis-cpu-µs/op")
	if hot := all.value("Redis/weblimit/1-key/64/allow", "redis-cpu-µs/op"); single > 0 && batched > 0 && hot > 0 {
		b.WriteString("\n| checks per second | masters, if each check comes alone | masters, if they come 64 at a time | all of one key, 64 at a time |\n|---:|---:|---:|---|\n")
		for _, rate := range []float64{10_000, 50_000, 100_000, 300_000, 1_000_000} {
			verdict := "one Redis"
			if rate*hot > busy*1e6 {
				verdict = "prefetch: a key has one core"
			}
			fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s |\n", thousands(rate), masters(rate, single), masters(rate, batched), verdict)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// masters returns how many cores that many checks a second need, none busier than planned.
func masters(rate, cpu float64) float64 {
	n := rate * cpu / (busy * 1e6)
	return float64(int(n) + 1)
}

func gigabytes(v float64) string { return fmt.Sprintf("%.1f GB", v/1e9) }
