package prove

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what several processes did with the keys of some clients, and what they were answered.
type history struct {
	seed       uint64
	job        job
	operations []*operation
	behind     bool // see spec

	repeats repeatsOf
	age     time.Duration // of repeated denials; 0 is the default
	losses  []loss        // by process; nil if no message is lost on purpose
}

// made counts histories, so that those of one seed have no keys in common.
var made atomic.Int64

// newHistory returns a history of a seed that is to be made.
func newHistory(kind string, seed uint64, windows ...time.Duration) *history {
	r := rand.New(rand.NewPCG(seed, 17))
	h := &history{seed: seed, job: job{
		Seed: seed, Name: fmt.Sprintf("%s-%d-%d", kind, seed, made.Add(1)), Threads: 4, Each: 10, Clients: 2 + r.IntN(4), Keys: keysOf,
		Pause: pick[int64](r, 0, 300, 3000), Most: 3, Patience: 60_000_000,
	}}
	for i := range 1 + r.IntN(4) {
		for {
			l := randomLimit(r, fmt.Sprintf("l%d", i), windows)
			if _, err := l.rule(); err == nil { // some are too large for a queue
				h.job.Limits = append(h.job.Limits, l)
				break
			}
		}
	}
	h.repeats = pick(r, byNone, bySome, byAll, byAll)
	return h
}

// patienceOfChecks bounds the check of one client's operations.
const patienceOfChecks = 5 * time.Second

// tally is what was counted of histories.
type tally struct {
	Histories, Operations, Errors, Unknown, Clients, TimedOut int
	Events                                                    map[string]int
}

func (t *tally) add(o *tally) {
	t.Histories += o.Histories
	t.Operations += o.Operations
	t.Errors += o.Errors
	t.Unknown += o.Unknown
	t.Clients += o.Clients
	t.TimedOut += o.TimedOut
	for what, n := range o.Events {
		t.note(what, n)
	}
}

func (t *tally) note(what string, n int) {
	if t.Events == nil {
		t.Events = map[string]int{}
	}
	t.Events[what] += n
}

// check checks each client's part of the history, and draws those that no limiter could have answered.
func (h *history) check(tb testing.TB, count *tally) {
	tb.Helper()
	count.Histories++
	for client := range h.job.Clients {
		part := slices.DeleteFunc(slices.Clone(h.operations), func(o *operation) bool { return o.Client != client && o.Client != everybody })
		for _, o := range part {
			if count.Operations++; o.Err != "" || !o.Ended {
				count.Errors++
			}
			if o.unknown() {
				count.Unknown++
			}
			if o.isRepeat() {
				count.note("denials repeated", 1)
			}
		}
		count.Clients++
		m := &spec{limits: h.job.Limits, keys: h.job.Keys, behind: h.behind}
		m.slow, m.fast = aheadOf(part)
		m.times = timesOf(h.job.Limits, part, m.slow, m.fast, h.behind)
		if h.relate(tb, part); tb.Failed() {
			return
		}
		operations := porcupineOf(part)
		// Most repeated denials are right when they are asked for, which is quick to check.
		if plain := plainOf(part, operations); plain != nil && porcupine.CheckOperationsTimeout(m.model(), plain, patienceOfChecks/5) == porcupine.Ok {
			count.note("clients with messages in flight, plainly linearizable", 1)
			continue
		}
		switch porcupine.CheckOperationsTimeout(m.model(), operations, patienceOfChecks) {
		case porcupine.Unknown:
			count.TimedOut++
		case porcupine.Ok:
			if plainOf(part, operations) != nil {
				count.note("clients with messages in flight, linearizable with them", 1)
			}
		case porcupine.Illegal:
			h.fail(tb, m, part, operations, client)
		}
	}
}

// everybody is operation.Client of what happens to the server.
const everybody = -1

func porcupineOf(part []*operation) []porcupine.Operation {
	end := int64(0)
	for _, o := range part {
		end = max(end, o.Return, o.Call)
	}
	operations := make([]porcupine.Operation, len(part))
	for i, o := range part {
		operations[i] = porcupine.Operation{ClientId: o.Process*64 + o.Thread, Input: o, Call: o.Call, Return: o.Return}
		if o.unknown() {
			operations[i].Return = end + 1 // it may still happen
		}
		if o.isRepeat() {
			operations[i].Call = o.Since
		}
	}
	return operations
}

// plainOf returns the operations without regard to messages in flight; nil if that makes no difference.
func plainOf(part []*operation, operations []porcupine.Operation) []porcupine.Operation {
	plain := slices.Clone(operations)
	differs := false
	for i, o := range part {
		if o.isRepeat() {
			differs = differs || o.Since < o.Call
			plain[i].Call = o.Call
		}
	}
	if !differs {
		return nil
	}
	return plain
}

// fail draws what is wrong and says how to have it again.
func (h *history) fail(tb testing.TB, m *spec, part []*operation, operations []porcupine.Operation, client int) {
	tb.Helper()
	dir := *pictures
	if dir == "" {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("weblimit-%s-client%d.html", h.job.Name, client))
	_, info := porcupine.CheckOperationsVerbose(m.model(), operations, patienceOfChecks)
	if err := porcupine.VisualizePath(m.model(), info, path); err != nil {
		path = err.Error()
	}
	var s strings.Builder
	for i := range h.job.Limits {
		fmt.Fprintf(&s, "  %v\n", &h.job.Limits[i])
	}
	longest := longestOf(info.PartialLinearizations()[0])
	if n := len(longest); n > 0 {
		for _, i := range longest[max(0, n-8):] {
			fmt.Fprintf(&s, "  %s\n", part[i].describe(h.job.Limits))
		}
	}
	s.WriteString("  and then none of\n")
	var others []*operation
	for i, o := range part {
		if !slices.Contains(longest, i) {
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b *operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range others[:min(len(others), 12)] {
		fmt.Fprintf(&s, "  %d.%d (called %d, returned %d) %s\n", o.Process, o.Thread, o.Call/1000, o.Return/1000, o.describe(h.job.Limits))
	}
	tb.Errorf("no limiter answers like this, whatever the order: %d operations of client %d, seed %d\n%s  picture: %s\n  again: make prove KIND=%s SEED=%d",
		len(part), client, h.seed, s.String(), path, tb.Name(), h.seed)
}

func longestOf(all [][]int) (longest []int) {
	for _, p := range all {
		if len(p) > len(longest) {
			longest = p
		}
	}
	return longest
}
