package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are those of all rounds.
type results struct {
	config map[string]string // lines such as "cpu: …", of the last round
	peers  []peer            // in the order of the last round's list
	rows   map[string]*row   // by name, without Benchmark and GOMAXPROCS
	names  []string          // of rows, in order of appearance

	profiles map[string]string // by name|kind: lines
}

// row is one benchmark.
type row struct {
	// values are by unit, one per round. A unit that was not reported in each round, such
	// as errors/op, is shorter.
	values map[string][]float64
	rounds int
}

// peer is a line of the list that the benchmarks print first.
type peer struct {
	Name, Module, Version, Counts string
	Baseline                      bool
}

var (
	configLine = regexp.MustCompile(`^([a-z][a-z0-9-]*): (.*)$`)
	// go test appends -GOMAXPROCS, unless that is 1.
	benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(\d.*)$`)
)

// parse reads the output of go test -bench. Lines that are not results are skipped,
// except failures.
func parse(r io.Reader) (*results, error) {
	all := &results{config: map[string]string{}, rows: map[string]*row{}, profiles: map[string]string{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "--- FAIL") {
			return nil, fmt.Errorf("a benchmark failed: %s", line)
		}
		if m := configLine.FindStringSubmatch(line); m != nil {
			if err := all.configure(m[1], m[2]); err != nil {
				return nil, err
			}
		}
		if m := benchmarkLine.FindStringSubmatch(line); m != nil {
			if err := all.add(m[1], strings.Fields(m[2])); err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all.rows) == 0 {
		return nil, fmt.Errorf("no results")
	}
	return all, nil
}

func (all *results) configure(key, value string) error {
	if key == "profile" {
		f := strings.SplitN(value, "|", 3)
		if len(f) != 3 {
			return fmt.Errorf("profile %q has %d fields, want 3", value, len(f))
		}
		all.profiles[f[0]+"|"+f[1]] += f[2] + "\n"
		return nil
	}
	if key != "peer" {
		all.config[key] = value
		return nil
	}
	f := strings.Split(value, "|")
	if len(f) != 5 {
		return fmt.Errorf("peer %q has %d fields, want 5", value, len(f))
	}
	p := peer{f[0], f[1], f[2], f[3], f[4] == "true"}
	all.peers = slices.DeleteFunc(all.peers, func(q peer) bool { return q.Name == p.Name })
	all.peers = append(all.peers, p)
	return nil
}

// add takes the values of one line: 12.5 ns/op 0 B/op …
func (all *results) add(name string, fields []string) error {
	if len(fields)%2 != 0 {
		return fmt.Errorf("%d fields, want values with units", len(fields))
	}
	r := all.rows[name]
	if r == nil {
		r = &row{values: map[string][]float64{}}
		all.rows[name] = r
		all.names = append(all.names, name)
	}
	r.rounds++
	for i := 0; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		r.values[fields[i+1]] = append(r.values[fields[i+1]], v)
	}
	return nil
}

// median returns the middle value, or the mean of the two middle values. There must be at least
// one value.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	half := len(s) / 2
	if len(s)%2 == 1 {
		return s[half]
	}
	return (s[half-1] + s[half]) / 2
}
