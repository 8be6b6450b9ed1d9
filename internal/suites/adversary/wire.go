package adversary

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// ending is what the client does after it has sent everything.
type ending byte

const (
	// waits for all answers, then closes.
	waits ending = iota
	// halfCloses at once, while handlers may run.
	halfCloses
	// resets at once, while handlers may run. The server cannot write any more.
	resets
	// leaves resets after receiving some bytes of the answers.
	leaves
)

func (e ending) String() string {
	return [...]string{"waits for the answers", "half-closes", "resets", "resets while it receives"}[e]
}

// wire is the server's end of a connection in memory. Everything that its client sends is
// known beforehand. One Read returns one segment.
type wire struct {
	peer net.Addr

	mu       sync.Mutex
	changed  *sync.Cond
	segments [][]byte
	end      ending
	receives int // with end leaves: bytes that the client receives before
	written  []byte
	busy     int  // requests being served
	expired  bool // a read deadline has passed
	gone     bool // the client has reset
	closed   bool // the server has closed, or will
	stuck    bool // the server has not closed in time
	judged   bool // later requests are ignored

	impatient   *time.Timer
	goneAway    bool          // the server serves no more requests
	seen        int           // bytes of written that readFrames has read
	patience    time.Duration // how long to wait for a request that must be served
	multiplexed bool          // HTTP/2: requests run while the server reads
	expected    map[line]int  // over HTTP/2: requests that must arrive. Guarded by mu.

	visits []*Visit // in the order of arrival. Guarded by mu.
}

func newWire(peer netip.Addr, segments [][]byte, end ending, receives int) *wire {
	w := &wire{
		peer:     net.TCPAddrFromAddrPort(netip.AddrPortFrom(peer, 40000)),
		segments: segments, end: end, receives: receives,
	}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// Read implements [net.Conn].
func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed:
			return 0, net.ErrClosed
		case w.expired:
			return 0, os.ErrDeadlineExceeded
		case w.gone:
			return 0, syscall.ECONNRESET
		case len(w.segments) > 0:
			n := copy(p, w.segments[0])
			if w.segments[0] = w.segments[0][n:]; len(w.segments[0]) == 0 {
				w.segments = w.segments[1:]
			}
			return n, nil
		case w.multiplexed && !w.served():
			if w.impatient == nil {
				w.impatient = time.AfterFunc(50*time.Millisecond, func() { w.give(halfCloses) })
			}
		case w.end == resets:
			w.leave()
			return 0, syscall.ECONNRESET
		case w.end == halfCloses, w.multiplexed && w.busy == 0:
			return 0, io.EOF
		case !w.multiplexed && len(p) > 1:
			// The server has served everything or waits for the rest of a body. While a
			// handler runs, net/http reads single bytes to notice that the client has left.
			// It has not.
			return 0, io.EOF
		}
		w.changed.Wait()
	}
}

// Write implements [net.Conn].
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return 0, net.ErrClosed
	case w.gone, w.end == resets && len(w.segments) == 0:
		w.leave()
		return 0, syscall.EPIPE
	case w.end == leaves && len(w.written)+len(p) > w.receives:
		n := max(w.receives-len(w.written), 0)
		w.written = append(w.written, p[:n]...)
		w.leave()
		return n, syscall.EPIPE
	}
	w.written = append(w.written, p...)
	if w.multiplexed {
		w.readFrames()
	}
	return len(p), nil
}

// readFrames looks for GOAWAY in what the server has written. After it the server serves
// nothing more and closes a second later. w.mu is held.
func (w *wire) readFrames() {
	for {
		frame := w.written[w.seen:]
		if len(frame) < 9 {
			return
		}
		if frame[3] == goAway {
			w.goneAway = true
			w.changed.Broadcast()
			return
		}
		n := 9 + (int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2]))
		if n > len(frame) {
			return
		}
		w.seen += n
	}
}

// goAway is the type of that frame.
const goAway = 7

// served reports whether an HTTP/2 client need not wait any longer: it has all answers or,
// if it does not wait for answers, all its requests have arrived.
func (w *wire) served() bool {
	switch w.end {
	case resets:
		return true
	case leaves:
		return w.busy == 0
	case halfCloses:
		return len(w.expected) == 0
	}
	return len(w.expected) == 0 && w.busy == 0
}

// give changes how an HTTP/2 connection ends whose client waits for what may never come: an
// answer that fits into no window, or a request that was not served. So does one that half-closes anyway: a
// busy server goes away when it has not read the client's settings within two seconds.
func (w *wire) give(end ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end != resets && !w.judged {
		w.end = end
		w.impatient = time.AfterFunc(w.patience, func() { w.give(resets) })
		w.changed.Broadcast()
	}
}

// leave resets the connection. w.mu is held.
func (w *wire) leave() {
	w.gone = true
	w.changed.Broadcast()
}

// Close implements [net.Conn].
func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	return nil
}

// CloseWrite is called by net/http after its last answer, half a second before Close.
func (w *wire) CloseWrite() error { return w.Close() }

// SetReadDeadline implements [net.Conn]. Deadlines are either over or far away.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = !t.IsZero() && t.Before(time.Now())
	w.changed.Broadcast()
	return nil
}

// SetDeadline implements [net.Conn].
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (w *wire) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80} }

// RemoteAddr implements [net.Conn].
func (w *wire) RemoteAddr() net.Addr { return w.peer }

// line identifies a request by its first line.
type line struct{ method, target string }

// expect adds n to the number of times that a request must arrive. w.mu is held, or no other
// goroutine has w.
func (w *wire) expect(l line, n int) {
	if w.expected == nil {
		w.expected = map[line]int{}
	}
	if w.expected[l] += n; w.expected[l] <= 0 {
		delete(w.expected, l)
	}
}

// enter records a request that has reached the application. It reports false if the
// connection has already been judged without it.
func (w *wire) enter(v *Visit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.judged {
		return false
	}
	w.busy++
	w.visits = append(w.visits, v)
	w.expect(line{v.method, v.target}, -1)
	w.changed.Broadcast()
	return true
}

// leaveHandler records that the application has returned.
func (w *wire) leaveHandler() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	w.changed.Broadcast()
}

// patienceWithServers is how long a server may take to serve and close a connection.
const patienceWithServers = time.Minute

var errStuck = errors.New("the server neither closes the connection nor reads from it")

// over reports whether the connection has ended and no handler runs. Over HTTP/2, requests
// may still reach the application after the server has closed. w.mu is held.
func (w *wire) over() bool {
	if w.multiplexed {
		return (w.closed || w.goneAway) && w.busy == 0 && w.served()
	}
	return w.closed && w.busy == 0
}

// wait waits until the server has closed the connection and no handler runs.
func (w *wire) wait() error {
	late := time.AfterFunc(patienceWithServers, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stuck = true
		w.leave()
	})
	defer late.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.over() {
		if w.multiplexed && (w.goneAway || w.closed) && w.impatient == nil {
			w.impatient = time.AfterFunc(50*time.Millisecond, func() { w.give(halfCloses) })
		}
		if w.stuck {
			return errStuck
		}
		w.changed.Wait()
	}
	w.judged, w.closed = true, true
	return nil
}

// pipe is a listener for connections in memory.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements [net.Listener].
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80} }
