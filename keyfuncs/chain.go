package keyfuncs

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxHops bounds how many entries of a chain are read. The shortest entry takes two
// bytes, so a header of a megabyte could carry half a million.
const maxHops = 32

// chainStrategy returns a Strategy that walks the entries of a header from the right,
// past those of trusted networks.
func chainStrategy(name, header string, cut cutter, cidrs []string) Strategy {
	trusted, err := parseNetworks(cidrs)
	if err != nil {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.%s: %w", name, err)}
	}
	if trusted.spans.coverAll() {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.%s: these networks contain every address, so clients could choose theirs; use HopCount", name)}
	}
	return Strategy{name: name, hop: chainHop(trusted, header, cut), addr: func(r Request) (netip.Addr, bool) {
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

// cutter cuts the last entry off a line. entry is anything but an address if the entry is
// invalid. more is false if it was the only entry left.
type cutter func(line string) (rest, entry string, more bool)

func cutEntry(line string) (rest, entry string, more bool) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], line[i+1:], i >= 0
}

// chain reads the entries of all lines of a header from right to left, one at a time.
type chain struct {
	r      Request
	header string
	cut    cutter
	lines  int // still unread
	rest   string
	more   bool // rest has unread entries
}

func newChain(r Request, header string, cut cutter) chain {
	return chain{r: r, header: header, cut: cut, lines: countLines(r, header)}
}

// next returns the next entry, and false if there are no more. An empty line is one empty
// entry.
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

// countLines counts the lines of a header by binary search. A request may carry
// thousands of empty lines, and finding line i may take i steps.
func countLines(r Request, canonical string) int {
	has := func(i int) bool {
		_, ok := r.Header(canonical, i)
		return ok
	}
	if !has(0) {
		return 0
	}
	// Line low exists, line high does not.
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
