package main

import (
	"bytes"
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed pages
var texts embed.FS

// places are the pages, and where they go in docs: the first is for those who choose a limiter, the others
// for those who change this one.
var places = []struct{ text, page string }{
	{"speed.md.tmpl", "choose/speed.md"},
	{"benchmarks.md.tmpl", "maintain/benchmarks.md"},
	{"profiles.md.tmpl", "maintain/profiles.md"},
}

// pages writes the pages of results and their plot, by their paths in docs. A run without profiles has no page of them.
func pages(all *results) (map[string][]byte, error) {
	written := map[string][]byte{}
	for _, place := range places {
		if strings.HasPrefix(place.text, "profiles") && len(all.profiles) == 0 {
			continue
		}
		text, err := page(all, place.text)
		if err != nil {
			return nil, err
		}
		written[place.page] = text
	}
	written["pictures/speed.svg"] = []byte(all.plot())
	return written, nil
}

// page writes one of them.
func page(all *results, name string) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"config":      func(key string) string { return all.config[key] },
		"peers":       func() []peer { return all.peers },
		"rounds":      all.rounds,
		"spread":      func() string { return percent(all.spread()) },
		"frameworks":  all.frameworks,
		"short":       all.short,
		"throughput":  all.throughput,
		"latency":     all.latency,
		"client":      all.client,
		"cost":        all.cost,
		"memory":      all.memory,
		"middleware":  all.middleware,
		"behind":      all.behind,
		"failing":     all.failing,
		"endToEnd":    all.endToEnd,
		"idle":        all.idle,
		"burst":       all.burst,
		"fairness":    all.fairness,
		"clientCPU":   all.clientCPU,
		"afterOutage": all.afterOutage,
		"floor":       all.floor,
		"breakers":    all.breakers,
		"pipelines":   all.pipelines,
		"targets":     all.targetTable,
		"profile":     func(name, kind string) string { return all.profiles[name+"|"+kind] },
	}).ParseFS(texts, "pages/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// throughput is checks per second on Redis.
func (all *results) throughput(keys, verdict string) string {
	return all.table(redisColumns(keys, verdict), nil, func(name string, c column) string {
		return thousands(all.perSecond(name)) + all.mark(name) + all.ratio(name, c)
	}, nil)
}

// latency is p50 and p99 on Redis.
func (all *results) latency(keys, verdict string) string {
	return all.table(redisColumns(keys, verdict), nil, func(name string, _ column) string {
		return micros(all.value(name, "p50-µs")) + " / " + micros(all.value(name, "p99-µs"))
	}, nil)
}

// cost is what a check takes in redis-server.
func (all *results) cost() string {
	columns := []column{
		{"allowed", func(peer string) string { return "Cost/" + peer + "/allow" }},
		{"denied", func(peer string) string { return "Cost/" + peer + "/deny" }},
	}
	return all.table(columns, []string{"bytes per key", "with tables"}, func(name string, _ column) string {
		return micros(all.value(name, "redis-script-µs/op")) + " / " + micros(all.value(name, "redis-cpu-µs/op"))
	}, func(peer string) []string {
		row := columns[0].scenario(peer)
		return []string{thousands(all.value(row, "redis-B/key")), thousands(all.value(row, "redis-used-B/key"))}
	})
}

// client is the cost of checks with each limiter's own client.
func (all *results) client() string {
	columns := []column{redisColumn("1-key", 1, "allow"), redisColumn("1-key", 64, "allow"), redisColumn("100k-keys", 64, "allow"), redisColumn("100k-keys", 256, "allow")}
	for i, title := range []string{"1 key, 1", "1 key, 64", "100k keys, 64", "100k keys, 256"} {
		columns[i].title = title
	}
	row := columns[2].scenario
	return all.table(columns, []string{"allocations", "bytes allocated"}, func(name string, _ column) string {
		return micros(all.value(name, "redis-cpu-µs/op")) + " / " + inverse(all.value(name, "redis-reads/op"))
	}, func(peer string) []string {
		return []string{thousands(all.value(row(peer), "allocs/op")), thousands(all.value(row(peer), "B/op"))}
	})
}

// inverse writes how many round trips a check takes: whole ones, or one of so many.
func inverse(v float64) string {
	switch {
	case v <= 0:
		return "0"
	case v < 1/1000.:
		return "< 1/1000"
	case v < 0.75:
		return "1/" + strconv.FormatFloat(1/v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
}

func (all *results) memory() string {
	columns := memoryColumns()
	row := columns[2].scenario
	return all.table(columns, []string{"allocations", "heap bytes per key"}, func(name string, c column) string {
		return thousands(1e9/all.perSecond(name)) + all.mark(name) + all.ratio(name, c)
	}, func(peer string) []string {
		return []string{thousands(all.value(row(peer), "allocs/op")), thousands(all.value(row(peer), "B/key"))}
	})
}

func (all *results) middleware(framework string) string {
	c := middlewareColumn(framework)
	table := all.table([]column{c}, []string{"allocations", "bytes allocated"}, func(name string, c column) string {
		return thousands(all.value(name, "ns/op")) + all.ratio(name, c)
	}, func(peer string) []string {
		name := c.scenario(peer)
		return []string{thousands(all.value(name, "allocs/op")), thousands(all.value(name, "B/op"))}
	})
	bare := c.scenario("bare")
	if !all.has(bare) {
		return table
	}
	return table + fmt.Sprintf("| *no middleware* | %s | %s | %s |\n", thousands(all.value(bare, "ns/op")),
		thousands(all.value(bare, "allocs/op")), thousands(all.value(bare, "B/op")))
}

// enough is the smallest lead that counts as more than noise.
const enough = 1.05

// behind lists, for each scenario, the peers that were faster than ours.
func (all *results) behind() string {
	var columns []column
	for _, verdict := range []string{"allow", "deny"} {
		for _, keys := range []string{"1-key", "100k-keys"} {
			for _, c := range redisColumns(keys, verdict) {
				c.title = fmt.Sprintf("Redis, %s, %s at a time, %s", strings.ReplaceAll(keys, "-", " "), c.title, verdict)
				columns = append(columns, c)
			}
		}
	}
	for _, c := range memoryColumns() {
		c.title = "Memory, " + c.title
		columns = append(columns, c)
	}
	for _, f := range all.frameworks() {
		c := middlewareColumn(f)
		c.title = "Middleware, " + f
		columns = append(columns, c)
	}
	var b strings.Builder
	for _, c := range columns {
		var faster []string
		for _, l := range all.leads(c) {
			if lead := 1 / l.times; lead >= enough {
				faster = append(faster, l.Name+" "+times(lead))
			}
		}
		if len(faster) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", c.title, strings.Join(faster, ", "))
		}
	}
	if b.Len() == 0 {
		return "None, in this run.\n"
	}
	return b.String()
}

// manyErrors is the smallest part of failed checks that the page mentions.
const manyErrors = 0.0005

// mark marks a row in which checks failed.
func (all *results) mark(name string) string {
	if all.value(name, "errors/op") >= manyErrors {
		return "†"
	}
	return ""
}

// failing lists the rows in which checks failed.
func (all *results) failing() string {
	var rows []string
	for _, name := range all.names {
		if e := all.value(name, "errors/op"); e >= manyErrors {
			rows = append(rows, fmt.Sprintf("%s %s", name, percent(e)))
		}
	}
	slices.Sort(rows)
	if len(rows) == 0 {
		return "none did in this run"
	}
	return strings.Join(rows, ", ")
}

func times(ratio float64) string {
	if ratio >= 10 {
		return strconv.FormatFloat(ratio, 'f', 0, 64) + "×"
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64) + "×"
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

// micros writes microseconds with two digits or three.
func micros(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return thousands(v)
}

// thousands writes a number in three significant digits, or whole if below 1000, in groups.
func thousands(v float64) string {
	if v >= 1000 {
		unit := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/unit) * unit
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	if v < 10 && v != math.Round(v) {
		s = strconv.FormatFloat(v, 'f', 1, 64)
	}
	for i := len(s) - 3; i > 0 && !strings.Contains(s, "."); i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
