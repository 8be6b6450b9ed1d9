package proxies

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The addresses from which Attack and Honest send.
const (
	Attacker  = attacker
	Bystander = honest
)

// Attack sends 1,000 requests with forged headers from one address to a server with TLS, over HTTP/1.1
// and HTTP/2, and returns how many were answered with each status. Each also has the header lines in
// extra: name, value, name, value…
func Attack(tb testing.TB, addr, path string, extra ...string) map[int]int {
	tb.Helper()
	lies := forged(path, 1000)
	var lines []byte
	var more []field
	for pair := range slices.Chunk(extra, 2) {
		lines = append(lines, pair[0]+": "+pair[1]+"\r\n"...)
		more = append(more, field{pair[0], pair[1]})
	}
	host := []byte("Host: example.com\r\n")
	first := make([][]byte, len(lies.http1))
	for i, request := range lies.http1 {
		first[i] = bytes.Replace(request, host, append(bytes.Clone(host), lines...), 1)
	}
	second := slices.Clone(lies.http2)
	for i := range second {
		second[i].fields = append(slices.Clone(second[i].fields), more...)
	}
	got := pipeline(tb, attacker, addr, pause, first)
	for status, n := range streams(tb, attacker, addr, path, pause, second) {
		got[status] += n
	}
	return got
}

// Send sends requests over HTTP/1.1, written out, from an address to a server with TLS, and returns how many
// were answered with each status.
func Send(tb testing.TB, from, addr string, requests ...[]byte) map[int]int {
	tb.Helper()
	return pipeline(tb, from, addr, pause, requests)
}

// Certificate writes a certificate for example.com and its key to files in dir. That of the
// certificate has the key, too.
func Certificate(tb testing.TB, dir string) (cert, key string) {
	tb.Helper()
	return writeCertificate(tb, dir)
}

// FreeAddr returns a loopback address and port that nobody uses.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	return freeAddr(tb)
}

// Targets sends a request for each of the targets over HTTP/2, as the pseudo-header :path, from an address to a
// server with TLS, and returns how many were answered with each status.
func Targets(tb testing.TB, from, addr string, targets ...string) map[int]int {
	tb.Helper()
	all := map[int]int{}
	for _, target := range targets { // a connection each: some servers end it
		for status, n := range streams(tb, from, addr, "/", pause, []forgery{{target: target}}) {
			all[status] += n
		}
	}
	return all
}

// Resets sends requests over HTTP/2 from an address to a server with TLS, and resets the stream of each at once. On
// every other connection it does so after a ping was answered, when the server has begun to serve them.
func Resets(tb testing.TB, from, addr, path string, connections int) {
	tb.Helper()
	for n := range connections {
		conn := dial(tb, from, addr, http2.NextProtoTLS)
		_ = conn.SetDeadline(time.Now().Add(pause))
		c := &http2Conn{Framer: http2.NewFramer(conn, conn)}
		_, _ = conn.Write([]byte(http2.ClientPreface))
		_ = c.WriteSettings()
		const batch = 50
		for range batch {
			c.send(forgery{}, path)
			if n%2 == 0 {
				_ = c.WriteRSTStream(c.last-1, http2.ErrCodeCancel)
			}
		}
		_ = c.WritePing(false, [8]byte{1})
		for {
			frame, err := c.ReadFrame()
			if ping, is := frame.(*http2.PingFrame); err != nil || is && ping.IsAck() {
				break
			}
		}
		for id := uint32(1); n%2 == 1 && id < c.last; id += 2 {
			_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		_ = conn.Close()
	}
}
