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

// ending is what the client does when it has sent everything.
type ending byte

const (
	// waits for all answers, and then closes.
	waits ending = iota
	// halfCloses at once, while handlers may run.
	halfCloses
	// resets at once, while handlers may run: nothing can be written any more.
	resets
	// leaves resets after it has received some bytes of the answers.
	leaves
)

func (e ending) String() string {
	return [...]string{"waits for the answers", "half-closes", "resets", "resets while it receives"}[e]
}

// wire is the server's end of a connection in memory, whose client has decided
// beforehand all that it sends. Each segment is what one Read returns.
type wire struct {
	peer net.Addr

	mu       sync.Mutex
	changed  *sync.Cond
	segments [][]byte
	end      ending
	receives int // bytes that a client that leaves takes before
	written  []byte
	busy     int  // requests that are being served
	expired  bool // a deadline for reading is over
	gone     bool // the client has reset
	closed   bool // the server has closed, or will
	stuck    bool // it has not, for too long
	judged   bool // nothing counts any more

	impatient   *time.Timer
	goneAway    bool          // the server serves no more requests
	seen        int           // bytes of written that were looked at
	patience    time.Duration // with a server that does not serve what it should
	multiplexed bool          // HTTP/2: requests run while the server reads
	expected    map[line]int  // requests that are sure to come, over HTTP/2. Guarded by mu.

	visits []*visit // in the order of arrival. Guarded by mu.
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
			// The server has served everything, or waits for what is missing of a body. By
			// single bytes net/http finds out, while a handler runs, whether its client is
			// still there: it is.
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

// readFrames looks for GOAWAY in what the server has written: it serves nothing after
// it, and closes a second later. w.mu is held.
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

// served reports whether a client of HTTP/2 need not wait any longer. One that waits
// has been answered; of one that does not, all requests have arrived.
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

// give makes another end of a connection of HTTP/2 whose client waits for what may
// never come: an answer that fits into no window, or a request that was not served.
func (w *wire) give(end ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end != end && !w.judged {
		w.end = end
		w.impatient = time.AfterFunc(w.patience, func() { w.give(resets) })
		w.changed.Broadcast()
	}
}

// leave resets. w.mu is held.
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

// CloseWrite is what net/http calls half a second before Close, when it has
// answered for the last time.
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

// line is what a request begins with.
type line struct{ method, target string }

// expect expects n more of a request. w.mu is held, or nobody else has w.
func (w *wire) expect(l line, n int) {
	if w.expected == nil {
		w.expected = map[line]int{}
	}
	if w.expected[l] += n; w.expected[l] <= 0 {
		delete(w.expected, l)
	}
}

// enter notes a request that has reached the application. It reports false for one
// that is so late that the connection was judged without it.
func (w *wire) enter(v *visit) bool {
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

// leaveHandler notes that the application has returned.
func (w *wire) leaveHandler() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	w.changed.Broadcast()
}

// patienceWithServers is how long a server may take for a connection.
const patienceWithServers = 20 * time.Second

var errStuck = errors.New("the server neither closes the connection nor reads from it")

// over reports whether nothing happens any more on the connection. Over HTTP/2 its
// requests may still be about to arrive when it has closed. w.mu is held.
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

// pipe is a listener on which connections in memory arrive.
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
