package keyfuncs

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxHops is how many entries of a chain are looked at. The shortest takes two
// bytes of a header, so that a request could carry half a million.
const maxHops = 32

// chainStrategy is a Strategy that walks a header from its right end.
func chainStrategy(name, header string, cut cutter, cidrs []string) Strategy {
	trusted, err := parseNetworks(cidrs)
	if err != nil {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.%s: %w", name, err)}
	}
	if trusted.spans.coverAll() {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.%s: these networks trust every address, so that clients choose theirs; use HopCount", name)}
	}
	return Strategy{name: name, addr: func(r Request) (netip.Addr, bool) {
		addr, ok := peerAddr(r)
		if !ok || !trusted.contains(addr) {
			return addr, ok
		}
		c := newChain(r, header, cut)
		for range maxHops {
			entry, more := c.next()
			if !more {
				return addr, true
			}
			if addr, ok = parseAddr(entry); !ok {
				return netip.Addr{}, false
			}
			if !trusted.contains(addr) {
				return addr, true
			}
		}
		if _, more := c.next(); more {
			return netip.Addr{}, false
		}
		return addr, true
	}}
}

// cutter cuts the last entry off a line. entry is an address, or anything that
// is not one where there is none to be read. more is false after the first.
type cutter func(line string) (rest, entry string, more bool)

func cutEntry(line string) (rest, entry string, more bool) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], line[i+1:], i >= 0
}

// chain reads the entries of all lines of a header from right to left, and no
// more of them than it is asked for.
type chain struct {
	r      Request
	header string
	cut    cutter
	lines  int // that were not begun
	rest   string
	more   bool // rest is still to be read
}

func newChain(r Request, header string, cut cutter) chain {
	return chain{r: r, header: header, cut: cut, lines: countLines(r, header)}
}

// next gives "" and false when there are no more entries. An empty line is an
// entry that is empty.
func (c *chain) next() (entry string, ok bool) {
	if !c.more {
		if c.lines == 0 {
			return "", false
		}
		c.lines--
		c.rest, _ = c.r.Header(c.header, c.lines)
	}
	c.rest, entry, c.more = c.cut(c.rest)
	return entry, true
}

// countLines counts the lines of a header by looking for the last, since a
// request may carry thousands of empty ones and finding the i-th may take i steps.
func countLines(r Request, canonical string) int {
	has := func(i int) bool {
		_, ok := r.Header(canonical, i)
		return ok
	}
	if !has(0) {
		return 0
	}
	// Line low is there, line high is not.
	low, high := 0, 1
	for has(high) {
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; has(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
