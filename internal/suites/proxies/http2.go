package proxies

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streams sends forgeries over HTTP/2, many streams at a time, and returns how many were
// answered with each status. Streams that are reset count as status 0. A forgery with
// trailers is sent alone, because nginx ends the connection with all its streams.
func streams(tb testing.TB, from, addr, path string, pause time.Duration, forged []forgery) map[int]int {
	tb.Helper()
	const batch = 50
	statuses := map[int]int{}
	for len(forged) > 0 {
		conn := dial(tb, from, addr, http2.NextProtoTLS)
		c := &http2Conn{Framer: http2.NewFramer(conn, conn)}
		c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		c.AllowIllegalWrites = true
		_, _ = conn.Write([]byte(http2.ClientPreface))
		_ = c.WriteSettings()
		_ = c.WriteWindowUpdate(0, 1<<30)
		for open := true; open && len(forged) > 0; {
			n := 0
			for n == 0 || n < min(batch, len(forged)) && len(forged[n-1].trailers)+len(forged[n].trailers) == 0 {
				c.send(forged[n], path)
				n++
			}
			_ = conn.SetReadDeadline(time.Now().Add(pause))
			// After a connection ends, whatever was not answered on it is not sent
			// again: the proxy may have passed it on.
			open = c.receive(n, statuses)
			forged = forged[n:]
		}
		_ = conn.Close()
	}
	return statuses
}

// http2Conn is a client's connection.
type http2Conn struct {
	*http2.Framer
	last uint32 // stream
}

// send sends a forgery on the next stream.
func (c *http2Conn) send(f forgery, path string) {
	c.last += 2
	id := c.last - 1
	method, target := f.line(path)
	pseudo := []field{{":method", method}, {":scheme", "https"}, {":authority", "example.com"}, {":path", target}}
	_ = c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block(append(pseudo, f.fields...)), EndHeaders: true, EndStream: !f.hasBody(),
	})
	if f.body != "" {
		_ = c.WriteData(id, len(f.trailers) == 0, []byte(f.body))
	}
	if len(f.trailers) > 0 {
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(f.trailers), EndHeaders: true, EndStream: true})
	}
}

// block encodes fields unchanged, except that names are in lower case.
func block(fields []field) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0) // a block that is never sent must not change the table
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: strings.ToLower(f.name), Value: f.value})
	}
	return b.Bytes()
}

// receive reads until n streams have ended, and reports whether the connection
// can be used for more.
func (c *http2Conn) receive(n int, statuses map[int]int) bool {
	for n > 0 {
		frame, err := c.ReadFrame()
		if err != nil {
			return false
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			status, _ := strconv.Atoi(f.PseudoValue("status"))
			statuses[status]++
			ended = f.StreamEnded()
		case *http2.DataFrame:
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo { // no error: the server does not want the rest of the body
				statuses[0]++
				ended = true
			}
		case *http2.GoAwayFrame:
			return false
		}
		if ended {
			n--
		}
	}
	return true
}
