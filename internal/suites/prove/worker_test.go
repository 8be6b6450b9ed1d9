package prove

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
)

// orderVariable is the environment variable with the order of a process, as JSON.
const orderVariable = "WEBLIMIT_PROVE"

// order says which store a process uses.
type order struct {
	Network, Addr string // of Redis
	AddrFile      string // has the address of Redis
	Cluster       bool
	PostgreSQL    string
	Age           int64 // of repeated denials, in microseconds; 0 is the default
	Loss          loss
}

// line is what a process says: an operation, or that a job is done.
type line struct {
	Operation *operation `json:",omitempty"`
	Done      bool       `json:",omitempty"`
	Err       string     `json:",omitempty"`
}

// work is what a process does: jobs from its standard input.
func work(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	r, err := o.open()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(l line) {
		text, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.Write(append(text, '\n')) // at once, so that nothing is lost if the process is killed
	}
	r.note = func(o *operation) { say(line{Operation: o}) }
	for jobs := json.NewDecoder(os.Stdin); ; {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		done := line{Done: true}
		if err := r.run(&j); err != nil {
			done.Err = err.Error()
		}
		say(done)
	}
}

// open returns a runner with the process's stores.
func (o *order) open() (*runner, error) {
	if o.PostgreSQL != "" {
		s, err := openPostgres(o.PostgreSQL)
		return &runner{store: s}, err
	}
	dial := new(net.Dialer).DialContext
	if o.AddrFile != "" {
		dial = dialerOf(o.AddrFile)
	}
	e := &ear{loss: o.Loss, client: o.client(dial), received: make(chan struct{}, 1)}
	r := &runner{
		store:     redisstore.New(o.client(dial), redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}}),
		repeating: redisstore.New(o.client(e.dialer(dial)), redisstore.Config{DenialCache: redisstore.DenialCache{Age: micros(o.Age)}}),
		ear:       e,
	}
	for _, s := range []store.Store{r.store, r.repeating} {
		s.Registry().OnEvent(func(core.Event) {}) // no log
	}
	return r, nil
}

func (o *order) client(dial dialer) redis.UniversalClient {
	if o.Cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}, Dialer: dial})
	}
	return redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Dialer: dial})
}

// process is a process that makes operations.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines chan line     // closed when the process has ended
	ended chan struct{} // closed, too
}

func start(tb testing.TB, o order) *process {
	tb.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan line, 1024), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(p.cmd); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for all := bufio.NewScanner(output); all.Scan(); {
			var l line
			if json.Unmarshal(all.Bytes(), &l) != nil {
				break // it was killed while it wrote
			}
			p.lines <- l
		}
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// dead reports whether the process has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// failure returns an error if the process has ended by itself.
func (p *process) failure() error {
	if p.dead() && p.cmd.ProcessState.ExitCode() > 0 { // -1 if it was killed
		return fmt.Errorf("a process has ended: %v", p.cmd.ProcessState)
	}
	return nil
}

// end ends the process and waits for it.
func (p *process) end() {
	_ = p.input.Close()
	p.signal(syscall.SIGCONT)
	for range p.lines {
	}
}

// run has the process do a job, and returns the operations that it made, or had begun when it died.
func (p *process) run(j *job) ([]*operation, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	if _, err := p.input.Write(append(text, '\n')); err != nil {
		return nil, nil // it was killed before
	}
	latest := map[int]*operation{}
	all := func() []*operation {
		operations := make([]*operation, 0, len(latest))
		for _, o := range latest {
			operations = append(operations, o)
		}
		return operations
	}
	for deadline := time.After(2 * patience); ; {
		select {
		case l, ok := <-p.lines:
			switch {
			case !ok:
				return all(), nil
			case l.Err != "":
				return nil, errors.New(l.Err)
			case l.Done:
				return all(), nil
			}
			latest[l.Operation.ID] = l.Operation
		case <-deadline:
			return nil, fmt.Errorf("process %d does not finish %s", j.Process, j.Name)
		}
	}
}
