package proxies

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// dial connects to a proxy from an address and negotiates the protocol by ALPN.
func dial(tb testing.TB, from, addr, protocol string) net.Conn {
	tb.Helper()
	d := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience},
		Config: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // a certificate made up a moment ago
			ServerName:         "example.com",
			NextProtos:         []string{protocol},
			ClientSessionCache: sessions,
			CurvePreferences:   []tls.CurveID{tls.CurveP256}, // the cheapest
		},
	}
	return must.Get(d.DialContext(context.Background(), "tcp", addr))(tb)
}

// sessions are resumed, which saves most connections a signature.
var sessions = tls.NewLRUClientSessionCache(0)

// pipeline sends requests over HTTP/1.1, many at a time, and returns how many were
// answered with each status. After a request that ends its connection, or is not answered
// within the pause, the rest is sent on a new connection.
func pipeline(tb testing.TB, from, addr string, pause time.Duration, requests [][]byte) map[int]int {
	tb.Helper()
	const batch = 64
	statuses := map[int]int{}
	for len(requests) > 0 {
		conn := dial(tb, from, addr, "http/1.1")
		r := bufio.NewReader(conn)
		for open := true; open && len(requests) > 0; {
			n := min(batch, len(requests))
			go write(conn, requests[:n])
			for range n {
				_ = conn.SetReadDeadline(time.Now().Add(pause))
				requests = requests[1:]
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					open = false
					break
				}
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				statuses[res.StatusCode]++
				if open = err == nil && !res.Close; !open {
					break
				}
			}
		}
		_ = conn.Close()
	}
	return statuses
}

// write sends requests at once. It ignores errors, because the reader of the connection
// sees them.
func write(conn net.Conn, requests [][]byte) {
	var all []byte
	for _, r := range requests {
		all = append(all, r...)
	}
	_, _ = conn.Write(all)
}
