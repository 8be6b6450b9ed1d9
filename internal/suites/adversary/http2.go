package adversary

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames makes the frames of one client.
type frames struct {
	*source
	buf     bytes.Buffer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	next    uint32   // the id of the stream that comes next
	open    []uint32 // whose body goes on
}

// newAttack2 returns the attack of a seed over HTTP/2, and which of the frameworks it is for.
func newAttack2(seed uint64, frameworks []*Framework) (*Framework, *attack) {
	r := rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d))
	f := frameworks[r.IntN(len(frameworks))]
	a := &attack{setup: &setups[r.IntN(len(setups))], peer: peers[r.IntN(len(peers))], pieces: 1, seed: seed, http2: true, patience: time.Second}
	s := &source{Rand: r, setup: a.setup}
	c := &frames{source: s, next: 1}
	c.framer = http2.NewFramer(&c.buf, nil)
	c.framer.AllowIllegalWrites = true
	c.encoder = hpack.NewEncoder(&c.block)
	a.raw = c.stream2()
	if s.chance(30) {
		a.pieces = 1 + s.IntN(8)
	}
	if s.chance(30) {
		a.end = pick(s, halfCloses, resets, leaves)
		a.receives = s.IntN(3000)
	}
	return f, a
}

// stream2 is what one client sends. Errors of a Framer over a buffer are those of
// frames that are too long, which are not sent then.
func (c *frames) stream2() []byte {
	if !c.chance(2) {
		c.settings()
	}
	for range 1 + c.IntN(12) {
		c.request2()
		c.interlude()
	}
	for _, id := range c.open { // nothing is left to be waited for
		if c.chance(50) {
			_ = c.framer.WriteData(id, true, nil)
		} else {
			_ = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
	}
	raw := c.buf.Bytes()
	if c.chance(10) {
		raw = c.mutate(raw)
	}
	return raw
}

func (c *frames) settings() {
	switch c.IntN(10) {
	case 0:
		_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.IntN(64))})
	case 1:
		_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384})
	default:
		_ = c.framer.WriteSettings()
	}
}

// request2 opens a stream.
func (c *frames) request2() {
	id := c.next
	c.next += 2
	if c.chance(2) {
		id = pick(c.source, id+1, id-2, 0, id+100) // of the server, used before, none, far ahead
	}
	c.block.Reset()
	list := c.list(id)
	for _, f := range list {
		_ = c.encoder.WriteField(f)
	}
	ends := !c.chance(25)
	c.headers(id, ends)
	if c.chance(20) {
		_ = c.framer.WriteRSTStream(id, pick(c.source, http2.ErrCodeCancel, http2.ErrCodeNo, http2.ErrCodeInternal))
		return
	}
	if ends {
		return
	}
	for range c.IntN(3) {
		_ = c.framer.WriteData(id, false, []byte(pick(c.source, "", "hello", strings.Repeat("b", 500))))
		if c.chance(15) {
			_ = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			return
		}
	}
	if c.chance(50) {
		c.open = append(c.open, id)
		return
	}
	if c.chance(50) {
		_ = c.framer.WriteData(id, true, nil)
		return
	}
	c.block.Reset() // trailers
	for range 1 + c.IntN(3) {
		_ = c.encoder.WriteField(c.field2())
	}
	if c.chance(5) {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: ":path", Value: "/ok"})
	}
	c.headers(id, !c.chance(5))
}

// headers sends the block, in one frame or split at any place.
func (c *frames) headers(id uint32, ends bool) {
	block := bytes.Clone(c.block.Bytes())
	first := len(block)
	if c.chance(25) {
		first = c.IntN(len(block) + 1)
	}
	p := http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:first], EndStream: ends, EndHeaders: first == len(block)}
	if c.chance(5) {
		p.PadLength = uint8(c.IntN(256))
	}
	if c.chance(3) {
		p.Priority = http2.PriorityParam{StreamDep: pick(c.source, 0, id, id+2), Weight: 7}
	}
	_ = c.framer.WriteHeaders(p)
	for rest := block[first:]; len(rest) > 0; {
		n := 1 + c.IntN(len(rest))
		if c.chance(1) {
			_ = c.framer.WritePing(false, [8]byte{}) // nothing may come between
		}
		_ = c.framer.WriteContinuation(id, n == len(rest), rest[:n])
		rest = rest[n:]
	}
}

// list is the header list of a request.
func (c *frames) list(id uint32) (list []hpack.HeaderField) {
	path := c.target()
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path += "&s=" + strconv.Itoa(int(id))
	} else {
		path += "?s=" + strconv.Itoa(int(id))
	}
	add := func(name, value string) {
		list = append(list, hpack.HeaderField{Name: name, Value: value, Sensitive: c.chance(5)})
	}
	preflight := c.chance(6)
	method := c.method()
	if preflight {
		method = "OPTIONS"
	}
	add(":method", method)
	add(":scheme", pick(c.source, "http", "http", "http", "https"))
	add(":authority", "example.com")
	add(":path", path)
	if c.chance(6) { // what must not be
		switch c.IntN(7) {
		case 0:
			add(":path", "/ok")
		case 1:
			add(":status", "200")
		case 2:
			list = list[:3]
		case 3:
			add(":x", "y")
		case 4:
			add(":authority", "")
		case 5:
			add("host", "other.example")
		case 6:
			add(":protocol", "websocket")
		}
	}
	if preflight {
		add("origin", "https://app.example")
		add("access-control-request-method", c.method())
	}
	for range c.IntN(6) {
		list = append(list, c.field2())
	}
	if c.chance(4) {
		f := pick(c.source, hpack.HeaderField{Name: "connection", Value: "close"}, hpack.HeaderField{Name: "te", Value: "trailers"}, hpack.HeaderField{Name: "te", Value: "gzip"},
			hpack.HeaderField{Name: "transfer-encoding", Value: "chunked"}, hpack.HeaderField{Name: "content-length", Value: "5"}, hpack.HeaderField{Name: "expect", Value: "100-continue"},
			hpack.HeaderField{Name: ":path", Value: "/late"}, hpack.HeaderField{Name: "upgrade", Value: "x"})
		list = append(list, f)
	}
	return list
}

// field2 is a field by which a client could say who it is.
func (c *frames) field2() hpack.HeaderField {
	name := c.lie()
	value := c.fieldValue(name)
	if c.chance(12) {
		value = c.blanks() + value + c.blanks()
	}
	if c.chance(5) {
		return hpack.HeaderField{Name: pick(c.source, name, strings.ReplaceAll(strings.ToLower(name), "-", "_"), strings.ToLower(name)+" ", "x"+strings.ToLower(name), ""), Value: value}
	}
	return hpack.HeaderField{Name: strings.ToLower(name), Value: value}
}

// interlude is what clients may send between requests, and some that they may not.
func (c *frames) interlude() {
	if !c.chance(15) {
		return
	}
	last := c.next - 2
	switch c.IntN(9) {
	case 0:
		_ = c.framer.WritePing(c.chance(50), [8]byte{1})
	case 1:
		_ = c.framer.WriteWindowUpdate(0, uint32(1+c.IntN(1000)))
	case 2:
		_ = c.framer.WriteWindowUpdate(last, uint32(c.IntN(3)))
	case 3:
		_ = c.framer.WriteSettingsAck()
	case 4:
		c.settings()
	case 5:
		_ = c.framer.WritePriority(last, http2.PriorityParam{StreamDep: last - 2, Weight: 1})
	case 6:
		_ = c.framer.WriteRSTStream(last, http2.ErrCodeCancel)
	case 7:
		_ = c.framer.WriteRawFrame(http2.FrameType(c.IntN(256)|0x20), 0, last, []byte("unknown"))
	case 8:
		_ = c.framer.WriteData(last, false, []byte("late"))
	}
}
