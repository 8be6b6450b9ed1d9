package main

import (
	"fmt"
	"time"
	_ "time/tzdata" // so that the figures are the same on machines without a database of time zones

	"github.com/weblimit/weblimit/core"
)

// The figures of docs/choose/algorithms.md compare the same quota: ten in a minute.
const quota = 10

var midnight = time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC) // an edge of every window

// perMinute completes the figure of a limit of ten per minute.
func perMinute(a algorithm) algorithm {
	minutes := func(from, to time.Duration) panel {
		p := panel{from: midnight.Add(from), to: midnight.Add(to)}
		for at := from; at <= to; at += 30 * time.Second {
			p.ticks = append(p.ticks, tick{midnight.Add(at), fmt.Sprintf("%d:%02d", at/time.Minute, at%time.Minute/time.Second)})
		}
		return p
	}
	a.busy, a.attack = minutes(0, 2*time.Minute), minutes(30*time.Second, 150*time.Second)
	a.window, a.span = time.Minute, "60 s"
	if a.load == "" {
		a.load = "busy: 24 per minute"
	}
	a.every, a.requests = 2500*time.Millisecond, 48
	a.strikes = midnight.Add(time.Minute - time.Millisecond)
	a.time = "time, minutes:seconds"
	a.bin = 5 * time.Second
	if a.counted == "" {
		a.counted = "requests per 5 s"
	}
	if a.read == nil {
		a.level, a.full, a.read = "units left", quota, (*run).left
	}
	return a
}

func algorithms() []algorithm {
	minutes := []time.Time{midnight.Add(time.Minute), midnight.Add(2 * time.Minute)}
	return []algorithm{
		perMinute(algorithm{
			file:  "token-bucket.svg",
			title: []string{"Token bucket: ten at once after a pause,", "then one every 6 s"},
			about: "PerMinute(10). The bucket starts with ten units and refills by one every six seconds.",
			limit: core.PerMinute(quota), bound: "burst + quota", most: 2 * quota, aim: "attacker after a pause",
		}),
		perMinute(algorithm{
			file:  "fixed-window.svg",
			title: []string{"Fixed window: ten per clock minute,", "twenty around an edge"},
			about: "PerMinute(10).FixedWindow(). The count starts anew with each minute of the clock.",
			limit: core.PerMinute(quota).FixedWindow(), bound: "2 × quota", most: 2 * quota, aim: "attacker at the edge", edges: minutes,
		}),
		perMinute(algorithm{
			file:  "sliding-window.svg",
			title: []string{"Sliding window: smooth for even traffic,", "nearly twice the quota at the edge"},
			about: "PerMinute(10).SlidingWindow(). The window before weighs less with each second.",
			limit: core.PerMinute(quota).SlidingWindow(), bound: "2 × quota − 1", most: 2*quota - 1, aim: "attacker at the edge", edges: minutes,
		}),
		perMinute(algorithm{
			file:  "sliding-log.svg",
			title: []string{"Sliding log: exact, never more than ten", "in any 60 s"},
			about: "PerMinute(10).SlidingLog(). Each request counts for exactly one minute.",
			limit: core.PerMinute(quota).SlidingLog(), bound: "quota", most: quota, aim: "attacker after a pause",
		}),
		perMinute(algorithm{
			file:  "leaky-bucket.svg",
			title: []string{"Leaky bucket: one every 6 s,", "early requests wait up to 30 s"},
			about: "PerMinute(10).LeakyBucket(30 s). Marks stand where a request starts. At most five wait.",
			limit: core.PerMinute(quota).LeakyBucket(30 * time.Second), bound: "quota + 1", most: quota + 1, aim: "attacker: all at once",
			counted: "requests per 5 s, where they start", level: "requests waiting", full: 5, read: (*run).waiting,
		}),
		calendarDay(),
		concurrent(),
	}
}

// calendarDay is a quota per day in Berlin, over the day that has 23 hours.
func calendarDay() algorithm {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err) // time/tzdata has it
	}
	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, berlin) }
	noon := func(d int) time.Time { return time.Date(2026, 3, d, 12, 0, 0, 0, berlin) }
	a := algorithm{
		file:  "calendar-window.svg",
		title: []string{"Calendar window: ten per local day,", "and one day in spring has 23 hours"},
		about: "PerCalendarDay(10) in Berlin around 29 March 2026, which has 23 hours. The count starts anew at midnight in Berlin.",
		limit: core.PerCalendarDay(quota, berlin), bound: "3 × quota", most: 3 * quota,
		window: 24 * time.Hour, span: "24 h",
		busy:   panel{from: day(28), to: day(31)},
		attack: panel{from: day(28), to: day(31)},
		every:  100 * time.Minute, requests: 43, load: "busy: one per 100 min",
		aim: "attacker at midnight", strikes: day(29).Add(-time.Minute),
		bin: 3 * time.Hour, counted: "requests per 3 h", time: "dates at noon, in Berlin",
		edges: []time.Time{day(29), day(30)},
		level: "units left", full: quota, read: (*run).left,
	}
	for d := 28; d <= 30; d++ {
		a.busy.ticks = append(a.busy.ticks, tick{noon(d), fmt.Sprint(d, " Mar")})
	}
	a.attack.ticks = a.busy.ticks
	return a
}

// concurrent caps the requests that run, and not their rate.
func concurrent() algorithm {
	a := perMinute(algorithm{
		file:  "concurrency.svg",
		title: []string{"Concurrency limit: three run at once,", "any number one after the other"},
		about: "Concurrent(3), at 24 requests per minute and without a pause. Requests run for 20 s on the left and for 2.5 s on the right.",
		limit: core.Concurrent(3), load: "requests of 20 s", aim: "requests of 2.5 s",
		level: "requests running", full: 3, read: (*run).running,
		claim: "At any instant at most quota = 3; no bound per minute",
		runs:  20 * time.Second, runsBriefly: 2500 * time.Millisecond,
	})
	a.strikes = midnight.Add(time.Minute)
	return a
}
