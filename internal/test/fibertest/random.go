package fibertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
)

// Requests of random lines, however odd: nothing that only a trailer holds is ever seen.
func (s suite[C]) randomTrailers(t *testing.T) {
	t.Parallel()
	for _, options := range []Options[C]{{}, {ExactNames: true}, {StreamRequestBody: true}} {
		t.Run(fmt.Sprintf("%v %v", options.ExactNames, options.StreamRequestBody), func(t *testing.T) {
			t.Parallel()
			app, reader := s.f.App(options), s.f.Reader()
			reached, seen := 0, ""
			app.Use("", func(c C) error {
				_ = c.Body()
				reached++
				in, release := reader(c)
				defer release()
				for _, name := range []string{tenant, "User-Agent", "Cookie", "X-Forwarded-For", "Content-Type", "Host"} {
					seen += strings.Join(Values(in, name), " ")
				}
				for i := 0; ; i++ {
					value, ok := in.Cookie("sid", i)
					if !ok {
						return nil
					}
					seen += value
				}
			})
			random := rand.New(rand.NewPCG(1, 2))
			requests := long.Rounds(1000, 100_000)
			for range requests {
				seen = ""
				raw := randomChunked(random)
				serveRaw(app, raw)
				if strings.Contains(seen, marker) {
					t.Fatalf("%q was seen of %q", seen, raw)
				}
			}
			if reached < requests/10 {
				t.Errorf("only %d of %d requests were understood", reached, requests)
			}
		})
	}
}

// marker is in all values of trailers, and nowhere else.
const marker = "forged"

func randomChunked(random *rand.Rand) string {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	line := func(value string) string {
		name := pick("X-Tenant", "x-tenant", "X-TENANT", "X-Tenan", "X_Tenant", "User-Agent", "user-agent", "Cookie", "cookie", "X-Forwarded-For", "Content-Type")
		switch name {
		case "Cookie", "cookie":
			value = pick("sid=", "sid = ", "x=1; sid=", "sid", "=sid; sid=") + value
		}
		return name + ":" + pick("", " ", "\t", "  ") + value + pick("", "", " ", "\t", "\r\n folded", "\r\n\tfolded") + pick("\r\n", "\r\n", "\n")
	}
	var b strings.Builder
	b.WriteString("POST / HTTP/1.1\r\nHost: a\r\n")
	for range random.IntN(4) {
		b.WriteString(line(pick("a", "", "b c", "\"q\"")))
	}
	b.WriteString(pick("Transfer-Encoding: chunked", "transfer-encoding:chunked", "Transfer\rEncoding: chunked", "TRANSFER-ENCODING: x, chunked") + "\r\n")
	for range random.IntN(3) {
		b.WriteString(line(pick("a", "", "b c")))
	}
	b.WriteString("\r\n" + pick("0\r\n", "3\r\nabc\r\n0\r\n", "3;x=y\r\nabc\r\n0;z\r\n"))
	for range 1 + random.IntN(4) {
		b.WriteString(line(marker))
	}
	b.WriteString("\r\n")
	return b.String()
}

// serveRaw sends bytes to an app, which may refuse them.
func serveRaw[C any](app App[C], text string) {
	serveAnswered(app, text)
}

// serveAnswered returns the first line of the answer.
func serveAnswered[C any](app App[C], text string) (status string) {
	conn := &rawConn{Reader: strings.NewReader(text)}
	_ = app.ServeConn(conn)
	status, _, _ = strings.Cut(conn.answer.String(), "\r\n")
	return status
}

// rawConn is a connection whose client sends what Reader returns.
type rawConn struct {
	*strings.Reader
	answer strings.Builder
}

func (c *rawConn) Write(p []byte) (int, error)    { return c.answer.Write(p) }
func (*rawConn) Close() error                     { return nil }
func (*rawConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*rawConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*rawConn) SetDeadline(time.Time) error      { return nil }
func (*rawConn) SetReadDeadline(time.Time) error  { return nil }
func (*rawConn) SetWriteDeadline(time.Time) error { return nil }
