//go:build linux

package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestMemory prints the memory of an instance: at its start, after 100,000 keys, and with 10,000 idle
// connections of each kind. Without -bench-service there are 200 connections. In any case all of them are
// served, and what they take is given back when they close.
func TestMemory(t *testing.T) {
	connections, many := 200, 1000
	if *measures {
		connections, many = 10_000, 100_000
		fmt.Println("\n| weblimitd | RSS |\n| --- | --- |")
	}
	report := func(what string, bytes int64) {
		if *measures {
			fmt.Printf("| %s | %.1f MB |\n", what, float64(bytes)/1e6)
		}
	}
	d := startDaemon(t, "127.0.0.1:0")
	time.Sleep(200 * time.Millisecond) // what starting has left behind
	report("at its start", d.rss())

	ask := batches(t, d.data)
	for key := 1; key < many; key += batch {
		must.OK(t, ask(t.Context(), key))
	}
	report(fmt.Sprintf("after a check of each of %d keys, counted in memory", many), settled(t, d))

	for _, kind := range []struct {
		name string
		open func(*daemon) (io.Closer, error)
	}{
		{"idle connections of HTTP/1.1", func(d *daemon) (io.Closer, error) { return idleHTTP(d.data) }},
		{"idle connections of gRPC", func(d *daemon) (io.Closer, error) { return idleGRPC(d.grpc) }},
	} {
		fresh := startDaemon(t, "127.0.0.1:0")
		before, files := settled(t, fresh), fresh.files()
		open := make([]io.Closer, 0, connections)
		for range connections {
			c, err := kind.open(fresh)
			if err != nil {
				t.Fatalf("after %d %s: %v", len(open), kind.name, err)
			}
			open = append(open, c)
		}
		if got := fresh.files() - files; got < connections {
			t.Errorf("%d of %d %s are open", got, connections, kind.name)
		}
		after := settled(t, fresh)
		report(fmt.Sprintf("more, with %d %s", connections, kind.name), after-before)
		if each := (after - before) / int64(connections); *measures && each > 100_000 {
			t.Errorf("%d bytes for each of the %s", each, kind.name)
		}
		for _, c := range open {
			_ = c.Close()
		}
		wait.Until(t, "connections are closed", func() bool { return fresh.files() <= files+4 })
	}
}

// settled returns the memory of a process after a garbage collection that no request asked for: RSS as an
// operator sees it some time later.
func settled(t *testing.T, d *daemon) int64 {
	t.Helper()
	for range 2 { // the second one frees what finalizers have let go
		if status, body, err := d.ask(http.MethodGet, "/debug/pprof/heap?gc=1"); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v: %.200s", status, err, body)
		}
	}
	time.Sleep(300 * time.Millisecond) // the system takes back what was freed
	return d.rss()
}

// idleHTTP opens a connection, has one check answered, and leaves it open.
func idleHTTP(addr string) (io.Closer, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	const body = `{"policy":"api","key":"user:1"}`
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	_, err = fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return conn, err
}

// idleGRPC does the same with the health service of gRPC, without a client's goroutines.
func idleGRPC(addr string) (io.Closer, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	var fields headers
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/grpc.health.v1.Health/Check"},
		{":authority", "localhost"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		fields.add(f[0], f[1])
	}
	framer := http2.NewFramer(conn, conn)
	err = errors.Join(
		framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields.block(), EndHeaders: true}),
		framer.WriteData(1, true, make([]byte, 5))) // an empty message
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err != nil {
			break
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			err = framer.WritePing(true, f.Data)
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			err = fmt.Errorf("%v", f)
		case *http2.HeadersFrame:
			if f.StreamEnded() { // the trailer
				return conn, nil
			}
		}
	}
	return nil, err
}

// headers is a block of HPACK.
type headers struct{ fragment []byte }

func (h *headers) Write(p []byte) (int, error) {
	h.fragment = append(h.fragment, p...)
	return len(p), nil
}

func (h *headers) add(name, value string) {
	_ = hpack.NewEncoder(h).WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}) // it never fails, and remembers nothing
}

func (h *headers) block() []byte { return h.fragment }
