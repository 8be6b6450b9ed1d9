package llmlimit

import (
	"bytes"

	"github.com/weblimit/weblimit/llmlimit/internal/scan"
)

// lines reads server-sent events (HTML, section 9.2), and passes the text of their data on to a scanner. Lines may be of
// any length, and are not kept.
type lines struct {
	in    lineState
	match uint8 // bytes of "data:" that the line begins with
	cr    bool  // the byte before was a carriage return, so that a line feed is no further line
	data  bool  // the event has data
}

type lineState uint8

const (
	lineBegins lineState = iota
	lineData             // behind "data:"
	lineOther
)

const dataField = "data:"

// read reads bytes up to the end of the next event, and reports whether there is one.
func (l *lines) read(p []byte, json *scan.Scanner) (n int, event bool) {
	for n < len(p) {
		if l.cr {
			l.cr = false
			if p[n] == '\n' {
				n++
				continue
			}
		}
		if l.in == lineBegins {
			if p[n] != '\r' && p[n] != '\n' {
				l.begin(p[n])
				n++
				continue
			}
			if l.match == 0 { // a blank line
				l.cr = p[n] == '\r'
				n++
				if l.cr && n < len(p) && p[n] == '\n' {
					l.cr = false
					n++
				}
				if l.data {
					l.data = false
					json.Again()
					return n, true
				}
				continue
			}
		}
		end := lineEnd(p[n:])
		part := p[n:]
		if end >= 0 {
			part = p[n : n+end]
		}
		if l.in == lineData {
			feed(json, part)
			if end >= 0 {
				feed(json, newline) // lines of one event are joined by one
			}
		}
		n += len(part)
		if end >= 0 {
			l.cr = p[n] == '\r'
			l.in, l.match = lineBegins, 0
			n++
		}
	}
	return n, false
}

// lineEnd returns where a line ends, or -1.
func lineEnd(p []byte) int {
	end := bytes.IndexByte(p, '\n')
	if end >= 0 {
		p = p[:end]
	}
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		return cr
	}
	return end
}

var newline = []byte{'\n'}

// begin reads a byte of the name of a line.
func (l *lines) begin(c byte) {
	if c != dataField[l.match] {
		l.in = lineOther
		return
	}
	if l.match++; int(l.match) == len(dataField) {
		l.in, l.data = lineData, true
	}
}

// feed has a scanner read all bytes.
func feed(json *scan.Scanner, p []byte) {
	for len(p) > 0 {
		n, _ := json.Feed(p)
		p = p[n:]
	}
}
