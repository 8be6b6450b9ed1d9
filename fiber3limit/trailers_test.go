package fiber3limit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
)

// Trap 47. Requests of random lines, however odd: nothing that only a trailer holds is
// ever seen.
func TestTrap47NothingOfATrailerIsSeen(t *testing.T) {
	t.Parallel()
	for _, config := range []fiber.Config{{}, {DisableHeaderNormalizing: true}, {StreamRequestBody: true}} {
		t.Run(fmt.Sprintf("%v %v", config.DisableHeaderNormalizing, config.StreamRequestBody), func(t *testing.T) {
			t.Parallel()
			app := fiber.New(config)
			reached, seen := 0, ""
			var cache settingsCache
			app.Use(func(c fiber.Ctx) error {
				_ = c.Body()
				reached++
				in := acquire(c, new(routes), cache.of(c))
				defer in.release()
				for _, name := range []string{"X-Tenant", "User-Agent", "Cookie", "X-Forwarded-For", "Content-Type", "Host"} {
					seen += strings.Join(values(in, name), " ")
				}
				for i := 0; ; i++ {
					value, ok := in.Cookie("sid", i)
					if !ok {
						return nil
					}
					seen += value
				}
			})
			app.Handler()
			random := rand.New(rand.NewPCG(1, 2))
			const requests = 5000
			for range requests {
				seen = ""
				raw := randomChunked(random)
				_ = app.Server().ServeConn(&rawConn{Reader: strings.NewReader(raw)}) // many are refused
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

// rawConn is a connection whose client sends what Reader returns.
type rawConn struct{ *strings.Reader }

func (*rawConn) Write(p []byte) (int, error)      { return len(p), nil }
func (*rawConn) Close() error                     { return nil }
func (*rawConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*rawConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*rawConn) SetDeadline(time.Time) error      { return nil }
func (*rawConn) SetReadDeadline(time.Time) error  { return nil }
func (*rawConn) SetWriteDeadline(time.Time) error { return nil }
