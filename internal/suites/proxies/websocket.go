package proxies

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Upgrade answers a request for a WebSocket with 101, and then sends back what it gets. It reports false for
// other requests. What the browser and the application say to each other means nothing to a proxy, so there are no frames.
func Upgrade(w http.ResponseWriter, r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") || r.Header.Get("Sec-WebSocket-Key") == "" {
		return false
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: made-up\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
	return true
}

// WebSocket asks for a WebSocket at a path, over HTTP/1.1 from an address to a server with TLS. It returns the answer if
// that is no 101, and an error unless [Upgrade] sends back what it is sent.
func WebSocket(tb testing.TB, from, addr, path, upgrade string) (*http.Response, error) {
	tb.Helper()
	conn := dial(tb, from, addr, "http/1.1")
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(pause))
	_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "+upgrade+
		"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		return res, err
	}
	_ = res.Body.Close()
	if got := res.Header.Get("Sec-WebSocket-Accept"); got != "made-up" {
		return res, fmt.Errorf("the answer of the application has Sec-WebSocket-Accept %q", got)
	}
	for i := range 3 {
		message := fmt.Sprintf("message %d", i)
		if _, err := io.WriteString(conn, message); err != nil {
			return res, err
		}
		got := make([]byte, len(message))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != message {
			return res, fmt.Errorf("%q came back as %q: %w", message, got, err)
		}
	}
	return res, nil
}
