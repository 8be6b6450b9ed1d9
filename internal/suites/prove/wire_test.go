package prove

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// loss is what becomes of the messages to a process by which cached denials end.
type loss string

const (
	drop    loss = "drop"    // half of them get lost, and nothing says so
	stall   loss = "stall"   // some arrive late, and those behind them, too
	refused loss = "refused" // the process may not subscribe
)

// ear says how far behind a process is with messages. It sends messages to the process itself, markers:
// when one has come back, all that was sent before has been received. The store does not see markers:
// they are taken from what its connection reads.
type ear struct {
	loss   loss
	client redis.UniversalClient

	heard    atomic.Int64 // when the last marker that has come back was sent
	mu       sync.Mutex
	number   int           // Guarded by mu; of the last marker that was sent
	arrived  int           // Guarded by mu; how often it has come back
	received chan struct{} // there is something new
}

const (
	channel      = "weblimit:given-back" // of the messages: docs/run/guarantees.md
	markerPrefix = "a marker of "
)

func (e *ear) marker() string { return fmt.Sprintf("%s%d: %d.", markerPrefix, os.Getpid(), e.number) }

// listen sends markers until done.
func (e *ear) listen(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(300 * time.Microsecond):
			e.send()
		}
	}
}

// send sends a marker and waits until it has come back, or for a while.
func (e *ear) send() {
	if e.loss == refused {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	e.mu.Lock()
	e.number++
	e.arrived = 0
	text := e.marker()
	e.mu.Unlock()
	begin := monotonic()
	want, err := publish(ctx, e.client, text)
	for err == nil {
		e.mu.Lock()
		all := e.arrived >= want
		e.mu.Unlock()
		if all {
			e.heard.Store(begin)
			return
		}
		select {
		case <-e.received:
		case <-ctx.Done():
			return
		}
	}
}

// publish sends a marker behind all messages that were sent before. In a Cluster they come from all
// masters, and each keeps its own in order. Otherwise they come from a master: a server that is not one refuses the SET.
func publish(ctx context.Context, client redis.UniversalClient, text string) (sent int, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		const script = "redis.call('SET', KEYS[1], '', 'PX', 1000) redis.call('PUBLISH', ARGV[1], ARGV[2])"
		err := client.Eval(ctx, script, []string{"marker"}, channel, text).Err()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return 1, err
	}
	var all atomic.Int64
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		all.Add(1)
		return c.Publish(ctx, channel, text).Err()
	})
	return int(all.Load()), err
}

// back notes markers that the process has received.
func (e *ear) back(message []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes.Contains(message, []byte(e.marker())) {
		e.arrived++
		select {
		case e.received <- struct{}{}:
		default:
		}
	}
}

// wire is a connection of a store that repeats denials.
type wire struct {
	net.Conn
	ear        *ear
	subscribed atomic.Bool
	buffer     [4096]byte
	raw, ready []byte   // what was read; and of that what the store has not got yet
	markers    [][]byte // behind what was ready
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func (e *ear) dialer(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: c, ear: e}, nil
	}
}

// SyscallConn is for go-redis, which looks whether an idle connection is still open.
func (w *wire) SyscallConn() (syscall.RawConn, error) { return w.Conn.(syscall.Conn).SyscallConn() }

func (w *wire) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("*2\r\n$9\r\nsubscribe\r\n")) {
		if w.subscribed.Store(true); w.ear.loss == refused {
			w.ready = []byte("-NOPERM this user has no permissions to run the 'subscribe' command\r\n")
			return len(b), nil
		}
	}
	return w.Conn.Write(b)
}

// Read is called when the store has done all that it has read.
func (w *wire) Read(b []byte) (int, error) {
	if !w.subscribed.Load() {
		return w.Conn.Read(b)
	}
	for len(w.ready) == 0 {
		for _, m := range w.markers {
			w.ear.back(m)
		}
		w.markers = nil
		if w.sort(); len(w.ready) > 0 || len(w.markers) > 0 {
			continue
		}
		n, err := w.Conn.Read(w.buffer[:])
		if w.raw = append(w.raw, w.buffer[:n]...); err != nil {
			return 0, err
		}
	}
	n := copy(b, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// sort takes what was read apart, up to the first markers.
func (w *wire) sort() {
	for {
		n := lengthOf(w.raw)
		if n == 0 {
			return
		}
		message := bytes.Clone(w.raw[:n])
		isMarker := bytes.Contains(message, []byte(markerPrefix))
		if !isMarker && len(w.markers) > 0 {
			return
		}
		w.raw = w.raw[n:]
		if isMarker || bytes.Contains(message, []byte("\r\nmessage\r\n")) && !bytes.HasSuffix(message, []byte("$0\r\n\r\n")) {
			switch w.ear.loss {
			case drop:
				if rand.IntN(2) == 0 {
					continue
				}
			case stall:
				if rand.IntN(200) == 0 {
					time.Sleep(rand.N(200 * time.Millisecond))
				}
			}
		}
		if isMarker {
			w.markers = append(w.markers, message)
		} else {
			w.ready = append(w.ready, message...)
		}
	}
}

// lengthOf returns the length of the first reply, or 0 if that is not complete.
func lengthOf(b []byte) int {
	line := bytes.Index(b, []byte("\r\n"))
	if line < 0 {
		return 0
	}
	at := line + 2
	switch n, _ := strconv.Atoi(string(b[1:line])); b[0] {
	case '*', '>':
		for range n {
			l := lengthOf(b[at:])
			if l == 0 {
				return 0
			}
			at += l
		}
	case '$':
		if at += max(n+2, 0); at > len(b) {
			return 0
		}
	}
	return at
}
