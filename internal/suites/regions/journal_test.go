package regions

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// A journal is what one process has decided, in a file that survives it: a write that has returned is in the kernel. Times
// are in nanoseconds, those of servers in microseconds.
//
//	d limit key cost outcome asked answered at   a decision
//	a operation limit key units asked            units are asked of home
//	b operation charged answered at              home has answered
//	r limit key units charged at answered        units of a lease are given back
//	s at ...                                     regional.Counts, in JSON
type journal struct {
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{file: file}, err
}

func (j *journal) line(format string, args ...any) {
	if _, err := fmt.Fprintf(j.file, format+"\n", args...); err != nil {
		panic(err) // a journal with holes proves nothing
	}
}

// outcome is that of a decision.
type outcome byte

const (
	granted outcome = 'g'
	denied  outcome = 'n'
	unknown outcome = 'e' // the region's store did not answer: the request was denied, and may have been charged
)

// decision is one decision of a process.
type decision struct {
	in              *process
	limit           limit
	key             int
	cost            int64
	outcome         outcome
	asked, answered int64
	at              int64 // by the region's clock; 0 if unknown
}

// lease is units that a process has asked of home.
type lease struct {
	in              *process
	operation       string
	limit           limit
	key             int
	units           int64
	asked, answered int64 // answered is 0 if no answer came
	charged         bool
	at              int64 // by home's clock
}

// refund is units that a process has given back to home.
type refund struct {
	in       *process
	limit    limit
	key      int
	units    int64
	charged  bool  // as the answer said
	at       int64 // when they were charged, as the answer said
	answered int64
}

// read takes what has been added to the journal since it was last read.
func (p *process) read() error {
	if p.file == nil {
		file, err := os.Open(p.path)
		if os.IsNotExist(err) { // it has not begun
			return nil
		}
		if err != nil {
			return err
		}
		p.file = file
	}
	text, err := io.ReadAll(p.file)
	if err != nil {
		return err
	}
	text = append(p.rest, text...)
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			p.rest = text // it was killed while it wrote, or is writing
			return nil
		}
		if err := p.parse(string(line)); err != nil {
			return fmt.Errorf("%s: %q: %w", p.name, line, err)
		}
		text = rest
	}
}

func (p *process) parse(line string) error {
	switch line[0] {
	case 'd':
		d := decision{in: p}
		_, err := fmt.Sscanf(line, "d %d %d %d %c %d %d %d", &d.limit, &d.key, &d.cost, &d.outcome, &d.asked, &d.answered, &d.at)
		p.decisions = append(p.decisions, d)
		return err
	case 'a':
		l := &lease{in: p}
		if _, err := fmt.Sscanf(line, "a %s %d %d %d %d", &l.operation, &l.limit, &l.key, &l.units, &l.asked); err != nil {
			return err
		}
		if before := p.asked[l.operation]; before != nil { // it is repeated, or asked with fewer units
			l.asked = before.asked
		}
		p.asked[l.operation] = l
		return nil
	case 'b':
		var operation string
		var charged bool
		var answered, at int64
		if _, err := fmt.Sscanf(line, "b %s %t %d %d", &operation, &charged, &answered, &at); err != nil {
			return err
		}
		if l := p.asked[operation]; charged {
			l.charged, l.answered, l.at = true, answered, at
			p.leases = append(p.leases, *l)
		}
		return nil
	case 'r':
		r := refund{in: p}
		_, err := fmt.Sscanf(line, "r %d %d %d %t %d %d", &r.limit, &r.key, &r.units, &r.charged, &r.at, &r.answered)
		p.refunds = append(p.refunds, r)
		return err
	case 's':
		return p.noteStats([]byte(line[2:]))
	}
	return fmt.Errorf("no line of a journal")
}
