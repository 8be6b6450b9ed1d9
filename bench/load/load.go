// Package load requests one path of an HTTP server over and over, on connections that stay open.
// It shares the processors with the server, so it does little work: a request is bytes made
// once, and of a response only status and length are read.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/bench/latency"
)

// Config says what to request, and for how long.
type Config struct {
	Addr        string        // of the server, host:port
	Path        string        // "/" if empty
	Connections int           // also the number of requests under way at any time
	Warmup      time.Duration // before anything counts
	Time        time.Duration // that is measured
}

// Result is what the server did in the measured time.
type Result struct {
	Requests int
	Statuses map[int]int // requests by status
	Time     time.Duration
	P50, P99 time.Duration
}

// PerSecond returns how many requests were answered in a second.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Time.Seconds() }

// Run sends requests until the time is over. It fails if any request had no answer.
func Run(c Config) (Result, error) {
	if c.Path == "" {
		c.Path = "/"
	}
	request := []byte("GET " + c.Path + " HTTP/1.1\r\nHost: " + c.Addr + "\r\n\r\n")
	connections := make([]*connection, c.Connections)
	for i := range connections {
		conn, err := net.Dial("tcp", c.Addr)
		if err != nil {
			return Result{}, err
		}
		defer conn.Close()
		connections[i] = &connection{conn: conn, in: bufio.NewReader(conn), request: request, statuses: map[int]int{}}
	}
	var phase atomic.Int32
	var wg sync.WaitGroup
	for _, one := range connections {
		wg.Go(func() { one.err = one.ask(&phase) })
	}
	time.Sleep(c.Warmup)
	start := time.Now()
	phase.Store(counting)
	time.Sleep(c.Time)
	phase.Store(over)
	r := Result{Time: time.Since(start), Statuses: map[int]int{}}
	wg.Wait()

	var all latency.Histogram
	var errs []error
	for _, one := range connections {
		errs = append(errs, one.err)
		all.Merge(&one.took)
		for status, n := range one.statuses {
			r.Statuses[status] += n
			r.Requests += n
		}
	}
	r.P50, r.P99 = all.Quantile(0.5), all.Quantile(0.99)
	return r, errors.Join(errs...)
}

// The phases of a run, in order.
const (
	warming int32 = iota
	counting
	over
)

// connection has one request under way at a time.
type connection struct {
	conn     net.Conn
	in       *bufio.Reader
	request  []byte
	took     latency.Histogram
	statuses map[int]int
	err      error
}

// ask makes at least one request, and counts each that was sent and answered while the phase
// was counting.
func (c *connection) ask(phase *atomic.Int32) error {
	for {
		before := phase.Load()
		start := time.Now()
		if _, err := c.conn.Write(c.request); err != nil {
			return err
		}
		status, err := c.answer()
		if err != nil {
			return err
		}
		if before == counting && phase.Load() == counting {
			c.took.Record(time.Since(start))
			c.statuses[status]++
		}
		if before == over {
			return nil
		}
	}
}

var contentLength = []byte("content-length:")

// answer reads one answer and returns its status. Answers in chunks are refused: nothing that
// is measured here writes one.
func (c *connection) answer() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("load: status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("load: status line %q", line)
	}
	length := 0
	if status != 204 && status != 304 {
		length = -1
	}
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[n:]))); err != nil {
				return 0, fmt.Errorf("load: header %q", line)
			}
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("load: an answer with status %d and no Content-Length", status)
	}
	_, err = c.in.Discard(length)
	return status, err
}
