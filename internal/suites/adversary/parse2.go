package adversary

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// request2 is a stream as the oracle reads it.
type request2 struct {
	message
	stream uint32
	sure   bool // it reaches the application; else it may
}

// frame is one, as section 4.1 lays it out.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

// cutFrame cuts the first frame off b. It reports false if it has not arrived whole.
func cutFrame(b []byte) (f frame, rest []byte, ok bool) {
	if len(b) < 9 {
		return f, nil, false
	}
	n := 9 + (int(b[0])<<16 | int(b[1])<<8 | int(b[2]))
	f = frame{http2.FrameType(b[3]), http2.Flags(b[4]), binary.BigEndian.Uint32(b[5:]) &^ (1 << 31), b[9:min(n, len(b))]}
	if n > len(b) {
		return f, nil, false
	}
	return f, b[n:], true
}

func (f frame) String() string {
	return fmt.Sprintf("%v, flags %#x, stream %d, %d bytes", f.kind, byte(f.flags), f.stream, len(f.payload))
}

// fragment returns the part of a header block that HEADERS holds. It reports false if
// the padding leaves none, and dependsOnItself for a priority that can't be.
func (f frame) fragment() (block []byte, dependsOnItself, ok bool) {
	block = f.payload
	padding := 0
	if f.flags.Has(http2.FlagHeadersPadded) {
		if len(block) == 0 {
			return nil, false, false
		}
		padding, block = int(block[0]), block[1:]
	}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if len(block) < 5 {
			return nil, false, false
		}
		dependsOnItself = binary.BigEndian.Uint32(block)&^(1<<31) == f.stream
		block = block[5:]
	}
	if padding > len(block) {
		return nil, false, false
	}
	return block[:len(block)-padding], dependsOnItself, true
}

// harmless reports settings of which the server makes nothing but note.
func (f frame) harmless() bool {
	if f.flags.Has(http2.FlagSettingsAck) || f.stream != 0 || len(f.payload)%6 != 0 || len(f.payload) > 12 {
		return false
	}
	for p := f.payload; len(p) > 0; p = p[6:] {
		switch s := (http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p)), Val: binary.BigEndian.Uint32(p[2:])}); s.ID {
		case http2.SettingInitialWindowSize, http2.SettingHeaderTableSize, http2.SettingMaxFrameSize:
			if s.Valid() != nil {
				return false
			}
		default:
			return false
		}
	}
	return len(f.payload) < 12 || [2]byte(f.payload[:2]) != [2]byte(f.payload[6:8])
}

// parse2 reads the frames of a client, as RFC 9113 says, and returns the streams that
// are requests. What comes after a frame that may end the connection is no longer sure.
func parse2(raw []byte) (requests []request2) {
	var list []hpack.HeaderField
	decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) { list = append(list, f) })
	open := map[uint32]bool{}
	refused := map[uint32]bool{} // streams that the server may not know
	sure, last := true, uint32(0)
	for first := true; ; first = false {
		f, rest, ok := cutFrame(raw)
		if !ok || len(f.payload) > 1<<20 {
			return requests
		}
		raw = rest
		id := f.stream
		sure = sure && !refused[id] && len(f.payload) <= 16384 && (!first || f.kind == http2.FrameSettings)
		switch f.kind {
		case http2.FrameSettings:
			sure = sure && f.harmless()
		case http2.FrameHeaders:
			fragment, dependsOnItself, ok := f.fragment()
			if !ok || id == 0 {
				return requests
			}
			block, split := bytes.Clone(fragment), false
			for end := f.flags.Has(http2.FlagHeadersEndHeaders); !end; split = true {
				c, rest, ok := cutFrame(raw)
				if !ok || c.kind != http2.FrameContinuation || c.stream != id {
					return requests // nothing may come between
				}
				block, raw, end = append(block, c.payload...), rest, c.flags.Has(http2.FlagContinuationEndHeaders)
			}
			list = list[:0]
			if _, err := decoder.Write(block); err != nil || decoder.Close() != nil {
				return requests
			}
			if open[id] { // trailers
				delete(open, id)
				sure = false // they end the connection if the server has closed the stream by then
				continue
			}
			sure = sure && id%2 == 1 && id > last && !dependsOnItself
			last = max(last, id)
			r := request2{stream: id, sure: sure}
			if r.read(list); r.refused != "" {
				refused[id] = true
				sure = sure && !split // what goes on after what is wrong ends the connection
				continue
			}
			requests = append(requests, r)
			open[id] = !f.flags.Has(http2.FlagHeadersEndStream)
		case http2.FrameData:
			// More than a stream's length, or behind its end, may end more than the stream.
			if !open[id] {
				sure = false
			} else if f.flags.Has(http2.FlagDataEndStream) {
				delete(open, id)
			}
		case http2.FrameRSTStream:
			delete(open, id)
			sure = sure && id <= last && id > 0 && len(f.payload) == 4
		case http2.FrameWindowUpdate:
			sure = sure && len(f.payload) == 4 && id <= last
			if sure {
				increment := binary.BigEndian.Uint32(f.payload) &^ (1 << 31)
				sure = increment < 1<<20 && (increment > 0 || id > 0)
			}
		case http2.FramePing:
			sure = sure && len(f.payload) == 8 && id == 0
		default:
			sure = sure && f.kind > 0x20 // nobody knows it
		}
	}
}

// malformed reports a field that makes a request none (section 8.2.1).
func malformed(f hpack.HeaderField) bool {
	return !f.IsPseudo() && !isToken(f.Name) || f.Name != strings.ToLower(f.Name) || hasControl(strings.ReplaceAll(f.Value, "\t", ""))
}

// read makes a request of a header list. It notes why there is none.
func (r *request2) read(list []hpack.HeaderField) {
	pseudo := map[string]string{}
	regular := false
	var cookies []string
	r.proto = "HTTP/2.0"
	for _, f := range list {
		if malformed(f) {
			r.refused = fmt.Sprintf("the field %q", f.Name)
		}
		if f.IsPseudo() {
			_, twice := pseudo[f.Name]
			switch f.Name {
			case ":method", ":path", ":scheme", ":authority":
			default:
				r.refused = "a pseudo-header that is none of requests"
			}
			if twice || regular {
				r.refused = "a pseudo-header twice, or too late"
			}
			pseudo[f.Name] = f.Value
			continue
		}
		regular = true
		switch f.Name {
		case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
			r.refused = "a field of the connection"
		case "te":
			if f.Value != "trailers" && f.Value != "" {
				r.refused = "a field of the connection"
			}
		case "cookie": // crumbs, which are put together (section 8.2.3)
			cookies = append(cookies, f.Value)
			continue
		}
		r.fields = append(r.fields, field{f.Name, f.Value, strings.Trim(f.Value, " \t"), strings.Trim(f.Value, " \t")})
	}
	if len(cookies) > 0 {
		all := strings.Join(cookies, "; ")
		r.fields = append(r.fields, field{"Cookie", all, all, all})
	}
	r.method, r.target = pseudo[":method"], pseudo[":path"]
	if r.refused != "" {
		return
	}
	if r.method == "CONNECT" {
		// It has an authority, and nothing else; "" and "://" is how net/http sees it.
		if r.target != "" || pseudo[":scheme"] != "" || pseudo[":authority"] == "" {
			r.refused = "a CONNECT with a path"
		}
		r.target = pseudo[":authority"]
		return
	}
	if r.method == "" || pseudo[":scheme"] != "http" && pseudo[":scheme"] != "https" {
		r.refused = "no method or scheme"
	} // net/http takes any method
	if _, err := url.ParseRequestURI(r.target); err != nil {
		r.refused = "no path"
	}
}

// describe writes a client's bytes, and what the oracle takes them for.
func describe(b *strings.Builder, raw []byte) {
	fmt.Fprintf(b, "\t%q\n", raw)
	for rest := raw; ; {
		f, after, ok := cutFrame(rest)
		if rest = after; !ok {
			break
		}
		fmt.Fprintf(b, "\t%v\n", f)
	}
	for _, r := range parse2(raw) {
		fmt.Fprintf(b, "\tstream %d, sure %t: %s %q\n", r.stream, r.sure, r.method, r.target)
		for _, f := range r.fields {
			fmt.Fprintf(b, "\t\t%s: %q\n", f.name, f.raw)
		}
	}
}
