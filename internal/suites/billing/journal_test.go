package billing

import (
	"bufio"
	"context"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota"
)

// A journal is what one process has done, in a file that survives it. Each operation is a line
// before it is asked for and another after it was answered, so that what was under way when the
// process was killed is known to be unknown. A write that has returned is in the kernel.
//
//	s id time tenant limits kind units of  asked; of is the operation that is settled or given back
//	p id limits                           of several alternatives, which one will take effect
//	g id time position ends ...           it took effect; for each limit, the account's position and the end of its period
//	n id time                             it did not
//	e id time error                       nobody knows
//	f time time                           all that was answered before the first time is in the ledger
//	b n                                   a batch of n increments was exported:
//	x id limit tenant start value         an increment was exported
//
// Times are in nanoseconds, and comparable between processes of one machine.
type journal struct {
	file *os.File
	last atomic.Int64
}

// kind is what an operation does.
type kind byte

const (
	take   kind = 't'
	charge kind = 'c' // a settlement
	refund kind = 'r'
)

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{file: file}, err
}

func (j *journal) line(format string, args ...any) {
	if _, err := fmt.Fprintf(j.file, format+"\n", args...); err != nil {
		panic(err) // a journal with holes proves nothing
	}
}

func (j *journal) start(tenant, limits int, k kind, units, of int64) (id int64) {
	id = j.last.Add(1)
	j.line("s %d %d %d %d %c %d %d", id, time.Now().UnixNano(), tenant, limits, k, units, of)
	return id
}

func (j *journal) granted(id int64, checks []store.Check, results []store.Result) {
	var accounts strings.Builder
	for i := range checks {
		fmt.Fprintf(&accounts, " %d %d", checks[i].Account.Position, counting.Ends(&results[i]))
	}
	j.line("g %d %d%s", id, time.Now().UnixNano(), accounts.String())
}

// paid notes which of several alternatives was charged, before granted.
func (j *journal) paid(id int64, limits int) { j.line("p %d %d", id, limits) }

func (j *journal) refused(id int64) { j.line("n %d %d", id, time.Now().UnixNano()) }
func (j *journal) unknown(id int64, err error) {
	j.line("e %d %d %q", id, time.Now().UnixNano(), err.Error())
}

// export is the receiver of usage. It may get an increment more than once, with one id.
func (j *journal) export(_ context.Context, batch []quota.Increment) error {
	j.line("b %d", len(batch))
	for i := range batch {
		n := &batch[i]
		j.line("x %s %s %s %d %d", n.ID, n.Limit, n.Tenant, n.Start.UnixMicro(), n.Value)
	}
	return nil
}

func (j *journal) flushed(began time.Time) {
	j.line("f %d %d", began.UnixNano(), time.Now().UnixNano())
}

// outcome is what became of an operation.
type outcome byte

const (
	unknown outcome = iota
	granted
	refused
)

// operation is one operation of a journal.
type operation struct {
	process    string
	id         int64
	begin, end int64 // end is 0 if it was never answered
	tenant     int
	limits     int // as bits
	kind       kind
	of         *operation
	units      int64
	outcome    outcome
	accounts   []told // of the limits, in order; nil unless it was granted
	err        string
}

// told is what the store has told of an account.
type told struct{ position, ends int64 }

// told returns what the store has told of the account of a limit.
func (o *operation) told(limit int) told {
	if len(o.accounts) == 0 {
		return told{}
	}
	return o.accounts[bits.OnesCount(uint(o.limits&(1<<limit-1)))]
}

func (o *operation) String() string {
	word := map[outcome]string{unknown: "unknown", granted: "granted", refused: "refused"}[o.outcome]
	text := fmt.Sprintf("%s #%d %s to %s: %c %d units %s", o.process, o.id, clock(o.begin), clock(o.end), o.kind, o.units, word)
	for _, a := range o.accounts {
		text += fmt.Sprintf(", generation %d change %d until %s", a.position>>36, a.position&(1<<36-1), clock(a.ends*1000))
	}
	return text + " " + o.err
}

func clock(nanos int64) string {
	if nanos == 0 {
		return "never"
	}
	return time.Unix(0, nanos).Format("05.000000")
}

// flush is one line of a flush.
type flush struct{ began, done int64 }

// exported is an increment that a receiver got.
type exported struct {
	id, limit, tenant string
	start, value      int64
}

// record is a journal that was read.
type record struct {
	process    string
	operations []*operation
	flushes    []flush
	exported   []exported
	batches    int   // that these came in
	killed     int64 // when, or 0
}

// written returns the time before which everything that was answered is in the ledger for sure.
func (r *record) written(by int64) (until int64) {
	for _, f := range r.flushes {
		if f.done <= by {
			until = max(until, f.began)
		}
	}
	return until
}

func readJournal(process, path string) (*record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &record{process: process}
	known := make(map[int64]*operation)
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line without an end was not finished: its writer did not go on
			return r, nil
		}
		var id, at int64
		switch line[0] {
		case 's':
			o := &operation{process: process}
			var of int64
			if _, err := fmt.Sscanf(line, "s %d %d %d %d %c %d %d", &o.id, &o.begin, &o.tenant, &o.limits, &o.kind, &o.units, &of); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			o.of = known[of]
			known[o.id] = o
			r.operations = append(r.operations, o)
			continue
		case 'f':
			var f flush
			if _, err := fmt.Sscanf(line, "f %d %d", &f.began, &f.done); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			r.flushes = append(r.flushes, f)
			continue
		case 'b':
			r.batches++
			continue
		case 'p':
			var limits int
			if _, err := fmt.Sscanf(line, "p %d %d", &id, &limits); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			known[id].limits = limits
			continue
		case 'x':
			var x exported
			if _, err := fmt.Sscanf(line, "x %s %s %s %d %d", &x.id, &x.limit, &x.tenant, &x.start, &x.value); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			r.exported = append(r.exported, x)
			continue
		}
		if _, err := fmt.Sscanf(line[2:], "%d %d", &id, &at); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		o := known[id]
		if o == nil {
			return nil, fmt.Errorf("%q answers nothing", line)
		}
		o.end = at
		switch rest := strings.SplitN(strings.TrimSpace(line), " ", 4); line[0] {
		case 'g':
			o.outcome = granted
			for text := strings.NewReader(rest[3]); text.Len() > 0 && err == nil; {
				var a told
				_, err = fmt.Fscan(text, &a.position, &a.ends)
				o.accounts = append(o.accounts, a)
			}
		case 'n':
			o.outcome = refused
		case 'e':
			o.err = rest[3]
		default:
			err = fmt.Errorf("%q is no line of a journal", line)
		}
		if err != nil {
			return nil, err
		}
	}
}
