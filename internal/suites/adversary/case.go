package adversary

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/weblimit/weblimit/core"
)

// attack is one connection: everything that its client chooses.
type attack struct {
	setup    *setup
	peer     netip.Addr
	raw      []byte
	pieces   int    // number of pieces in which raw arrives
	seed     uint64 // decides where raw is cut
	end      ending
	receives int // with end leaves: bytes that the client receives before
	http2    bool
	direct   bool          // use a plain Memory without recorder, for its fast path
	patience time.Duration // over HTTP/2: how long to wait for a request that must be served
}

// newAttack returns the attack of a seed, and which of the frameworks it is for.
func newAttack(seed uint64, frameworks []*Framework) (*Framework, *attack) {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	f := frameworks[r.IntN(len(frameworks))]
	a := &attack{setup: &setups[r.IntN(len(setups))], peer: peers[r.IntN(len(peers))], pieces: 1, seed: seed}
	s := &source{Rand: r, setup: a.setup}
	a.raw = s.stream()
	if s.chance(20) {
		a.pieces = 1 + s.IntN(max(len(a.raw), 1))
	} else if s.chance(30) {
		a.pieces = 1 + s.IntN(6)
	}
	a.direct = a.setup.plain() && s.chance(3)
	if a.setup.hangUps && s.chance(60) || s.chance(10) {
		a.end = pick(s, halfCloses, resets, leaves, leaves)
		a.receives = s.IntN(4000)
	}
	return f, a
}

// segments cuts the bytes into the pieces in which they arrive.
func (a *attack) segments() (segments [][]byte) {
	rest := a.raw
	if a.http2 {
		rest = append([]byte(http2.ClientPreface), a.raw...)
	}
	r := rand.New(rand.NewPCG(a.seed, 1))
	for i := a.pieces; i > 1 && len(rest) > 1; i-- {
		n := 1 + r.IntN(min(2*len(rest)/i+1, len(rest)))
		segments, rest = append(segments, rest[:n:n]), rest[n:]
	}
	if len(rest) > 0 {
		segments = append(segments, rest)
	}
	return segments
}

func (a *attack) String() string {
	pieces := ""
	if a.pieces > 1 {
		pieces = fmt.Sprintf(", in %d pieces", len(a.segments()))
	}
	if a.end == leaves {
		pieces += fmt.Sprintf(", %d bytes of them", a.receives)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "from %v, who %v%s:\n", a.peer, a.end, pieces)
	if a.http2 {
		describe(&b, a.raw)
		return b.String()
	}
	for _, line := range strings.SplitAfter(string(a.raw), "\n") {
		fmt.Fprintf(&b, "\t%q\n", line)
	}
	return b.String()
}

// site is an application on one framework with one set of limits. It serves one attack at
// a time.
type site struct {
	framework *Framework
	setup     *setup
	recorder  *recorder // nil with attack.direct
	limiter   *core.Limiter
	listener  *pipe
}

func newSite(f *Framework, s *setup, http2, direct bool) *site {
	e := &site{framework: f, setup: s, listener: newPipe()}
	var store core.Store = core.NewMemory()
	if !direct {
		e.recorder = newRecorder()
		store = e.recorder
	}
	e.limiter = core.Must(core.New(s.config(store)))
	go f.Serve(e.listener, e.limiter, s.onRoute, http2)
	return e
}

// suffer serves an attack and compares what happens with the oracle.
func (e *site) suffer(a *attack) (requests int, w *wrong) {
	client := newWire(a.peer, a.segments(), a.end, a.receives)
	var streams []request2
	if a.http2 {
		streams = parse2(a.raw)
		client.multiplexed, client.patience = true, a.patience
		for _, r := range streams {
			if r.sure && !e.framework.Dialect.itself(&r.message) {
				client.expect(line{r.method, r.target}, 1)
			}
		}
	}
	e.listener.conns <- client
	if err := client.wait(); err != nil {
		return 0, wrongf("stuck", "%v", err)
	}
	settle(e.limiter)
	j := &judge{limiter: e.limiter, direct: e.recorder == nil, framework: e.framework, setup: a.setup, peer: a.peer, end: a.end, accounts: map[bucket]*account{}, multiplexed: a.http2}
	if a.http2 {
		w = j.connection2(streams, client.visits)
	} else {
		w = j.connection(bytes.Clone(a.raw), client.visits)
	}
	if w != nil && a.http2 {
		var b strings.Builder
		describe(&b, client.written)
		w.text += "\nanswered:\n" + b.String()
	}
	if w == nil {
		w = j.balance(e.recorder)
	}
	if e.recorder != nil {
		e.recorder.reset()
	}
	return j.sent, w
}

// sites caches applications for one goroutine.
type sites map[string]*site

func (s sites) of(f *Framework, a *attack) *site {
	name := fmt.Sprint(f.Name, "/", a.setup.name, "/", a.http2, a.direct)
	e := s[name]
	if e != nil && a.direct { // its counts cannot be reset
		_ = e.listener.Close()
		e = nil
	}
	if e == nil {
		e = newSite(f, a.setup, a.http2, a.direct)
		s[name] = e
	}
	return e
}

func (s sites) close() {
	for _, e := range s {
		_ = e.listener.Close()
	}
}

// shrink returns the shortest attack that it finds that fails in the same way.
func (s sites) shrink(f *Framework, a *attack, w *wrong) (*attack, *wrong) {
	tries := 4000
	if w.kind == "stuck" {
		tries = 0 // each try takes long
	}
	try := func(b attack) bool {
		if tries--; tries < 0 {
			return false
		}
		_, now := s.of(f, &b).suffer(&b)
		if now == nil || now.kind != w.kind {
			return false
		}
		a, w = &b, now
		return true
	}
	a.patience = 200 * time.Millisecond
	simpler := *a
	simpler.pieces = 1
	try(simpler)
	simpler = *a
	simpler.end = waits
	try(simpler)
	for again := true; again; {
		again = false
		for _, cut := range a.cuts() {
			for _, span := range cut(a.raw) {
				if span[1] > len(a.raw) {
					continue
				}
				shorter := *a
				shorter.raw = append(bytes.Clone(a.raw[:span[0]]), a.raw[span[1]:]...)
				again = try(shorter) || again
			}
		}
	}
	return a, w
}

// cuts are ways to shorten an attack, the coarsest first.
func (a *attack) cuts() []func([]byte) [][2]int {
	if a.http2 {
		return []func([]byte) [][2]int{wholeFrames}
	}
	return []func([]byte) [][2]int{wholeRequests, wholeLines, spans}
}

// wholeFrames returns the positions of frames, last first.
func wholeFrames(raw []byte) (all [][2]int) {
	for at := 0; at+9 <= len(raw); {
		n := 9 + (int(raw[at])<<16 | int(raw[at+1])<<8 | int(raw[at+2]))
		all = append(all, [2]int{at, min(at+n, len(raw))})
		at += n
	}
	slices.Reverse(all)
	return all
}

// wholeRequests returns the positions of possible requests, last first.
func wholeRequests(raw []byte) (all [][2]int) {
	end := len(raw)
	for i := len(raw); i >= 0; i-- {
		if i == 0 || i >= 4 && string(raw[i-4:i]) == "\r\n\r\n" && i < end {
			all = append(all, [2]int{i, end})
			end = i
		}
	}
	return all
}

// wholeLines returns the positions of lines, last first.
func wholeLines(raw []byte) (all [][2]int) {
	end := len(raw)
	for i := len(raw) - 1; i >= 0; i-- {
		if i == 0 || raw[i-1] == '\n' {
			all = append(all, [2]int{i, end})
			end = i
		}
	}
	return all
}

// spans returns positions of a number of bytes, last first.
func spans(raw []byte) (all [][2]int) {
	for _, n := range []int{16, 4, 1} {
		for i := len(raw) - n; i >= 0; i -= n {
			all = append(all, [2]int{i, i + n})
		}
	}
	return all
}

// report fails the test with the difference and the shortest attack that shows it.
func (s sites) report(t testing.TB, f *Framework, a *attack, w *wrong, seed string) {
	t.Helper()
	short, why := s.shrink(f, a, w)
	t.Errorf("%s, %s, %s\n%s\n%s\nshrunk: %s\n%s", f.Name, a.setup.name, seed, w, a, why, short)
}
