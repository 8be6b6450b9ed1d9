package main_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// dial opens a connection to the data listener.
func (in *instance) dial(t *testing.T) net.Conn {
	t.Helper()
	c := must.Get(net.DialTimeout("tcp", in.data, time.Minute))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// closedWithin reports whether the server closes a connection in time.
func closedWithin(c net.Conn, d time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(d))
	_, err := io.Copy(io.Discard, c)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// statusOn reads the answer to a request on a connection, and returns its status.
func statusOn(c net.Conn) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// A caller that sends its header, its body or nothing at all slowly loses its connection.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--header-timeout", "300ms", "--read-timeout", "600ms", "--idle-timeout", "1s")
	for name, text := range map[string]string{
		"nothing":       "",
		"half a header": "POST /v1/check HTTP/1.1\r\nHost: x\r\nA:",
		"half a body":   "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"idle after":    "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := in.dial(t)
		_, _ = io.WriteString(c, text) // it may be closed already
		if !closedWithin(c, time.Minute) {
			t.Errorf("%s: the connection stays open", name)
		}
	}
	// A byte now and then does not help.
	c := in.dial(t)
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n")
	read := true
	for began := time.Now(); read && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		_, err := io.WriteString(c, "A: b\r\n")
		read = err == nil
	}
	if read {
		t.Error("a header that is sent for a minute is read on")
	}
	// A header without end is refused.
	c = in.dial(t)
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("a", 128<<10)+"\r\n\r\n")
	if code, err := statusOn(c); err == nil && code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %d", code)
	}
}

// Connections beyond the bound are closed at once, on this listener alone.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--max-connections", "5")
	var open []net.Conn
	for range 5 {
		c := in.dial(t)
		_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		must.Do(statusOn(c))(t)
		open = append(open, c)
	}
	if !closedWithin(in.dial(t), time.Minute) {
		t.Error("the sixth stays open")
	}
	check.Equal(t, "connections refused", in.metric(t, `weblimitd_connections_refused_total{listener="data"}`), "1")
	check.Equal(t, "open connections", in.metric(t, `weblimitd_connections{listener="data"}`), "5")
	_ = open[0].Close()
	wait.Until(t, "another one finds room", func() bool {
		c := in.dial(t)
		defer c.Close()
		_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := statusOn(c)
		return err == nil
	})
}

// Ten thousand idle connections take little memory, and none once they are closed.
func TestIdleConnections(t *testing.T) {
	race.Skip(t)
	if testing.Short() {
		t.Skip("it measures memory")
	}
	n := openFiles(10_500) - 500
	in := start(t, nil)
	before := in.resident(t)
	open := make([]net.Conn, 0, n)
	for range n {
		c := must.Get(net.Dial("tcp", in.data))(t)
		defer c.Close()
		_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		open = append(open, c)
	}
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		must.Do(c.Read(make([]byte, 512)))(t)
	}
	each := (in.resident(t) - before) / int64(n)
	t.Logf("%d idle connections: %d bytes each, %d MB in all", n, each, in.resident(t)>>20)
	if each > 32<<10 {
		t.Errorf("an idle connection takes %d bytes", each)
	}
	check.Equal(t, "open connections", in.metric(t, `weblimitd_connections{listener="data"}`), strconv.Itoa(n))
}
