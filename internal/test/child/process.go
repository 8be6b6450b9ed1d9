package child

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// patience is how long a process may take to say something, on a machine that has other work or stood still.
const patience = 3 * time.Minute

// Process is a process in a [Role]. Its methods may be called concurrently.
type Process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	messages chan json.RawMessage // closed when there are no more
	ended    chan struct{}        // closed when the process has ended
	printed  Output
	sending  sync.Mutex
}

// start starts a process that sends messages on its output, and receives them on its input. It is killed when the
// test ends, if it still runs.
func start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{cmd: cmd, messages: make(chan json.RawMessage, 1024), ended: make(chan struct{})}
	cmd.Stderr = &p.printed
	in := must.Get(cmd.StdinPipe())(tb)
	out := must.Get(cmd.StdoutPipe())(tb)
	p.in = in
	must.OK(tb, Start(cmd))
	tb.Cleanup(func() {
		p.Kill()
		_ = p.wait()
	})
	go p.read(out)
	return p
}

func (p *Process) read(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		text, message, sent := bytes.Cut(line, []byte{recordSeparator})
		_, _ = p.printed.Write(text)
		if err != nil { // a message without an end is none: it was killed while it wrote
			break
		}
		if sent {
			p.messages <- message
		}
	}
	close(p.messages)
	_ = p.cmd.Wait()
	close(p.ended)
}

// Send sends a message to the process. One that has ended does not hear it.
func (p *Process) Send(tb testing.TB, message any) {
	tb.Helper()
	line := must.Get(json.Marshal(message))(tb)
	p.sending.Lock()
	defer p.sending.Unlock()
	_, _ = p.in.Write(append(line, '\n')) // an error says what the next message says, too: that it has ended
}

// Receive returns the next message of the process. It ends the test if there is none.
func Receive[Message any](tb testing.TB, p *Process) (message Message) {
	tb.Helper()
	must.OK(tb, p.Next(&message))
	return message
}

// ErrEnded says that a process has ended, and that there are no more messages of it.
var ErrEnded = errors.New("the process has ended")

// Next is [Receive] for tests that kill the process: then its error wraps ErrEnded.
func (p *Process) Next(into any) error {
	select {
	case line, ok := <-p.messages:
		if !ok {
			<-p.ended
			return fmt.Errorf("%w, %v, and has not sent a %T\n%s", ErrEnded, p.cmd.ProcessState, into, p.printed.String())
		}
		if err := json.Unmarshal(line, into); err != nil {
			return fmt.Errorf("the process sent %q: %w", line, err)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%v without a %T from the process\n%s", patience, into, p.printed.String())
	}
}

// Close tells the process that there are no more messages for it.
func (p *Process) Close() { _ = p.in.Close() }

// Wait waits until the process ends by itself, and fails the test if that is not well. Messages that nobody has received
// are dropped.
func (p *Process) Wait(tb testing.TB) {
	tb.Helper()
	must.OK(tb, p.wait())
}

func (p *Process) wait() error {
	late, messages := time.After(patience), p.messages
	for {
		select {
		case _, more := <-messages: // so that the process is not kept from ending
			if !more {
				messages = nil
			}
		case <-p.ended:
			if !p.cmd.ProcessState.Success() {
				return fmt.Errorf("the process ended with %v\n%s", p.cmd.ProcessState, p.printed.String())
			}
			return nil
		case <-late:
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // has Go print where each goroutine is
			select {
			case <-p.ended:
			case <-time.After(10 * time.Second):
			}
			return fmt.Errorf("%v, and the process has not ended\n%s", patience, p.printed.String())
		}
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill kills the process, if it still runs. What it has sent before can still be received.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it fails only on a process that has ended
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// State says how the process has ended. It is nil before that.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.ended:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Printed returns what the process has printed.
func (p *Process) Printed() string { return p.printed.String() }
