package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestClockIsBoundedByEachAnswer(t *testing.T) {
	t.Parallel()
	var c clock
	if _, _, known := c.read(); known {
		t.Error("the clock is known before any answer")
	}
	const ahead = 1_800_000_000_000_000
	wide := func(at time.Duration) {
		c.learn(ahead+(at+3*time.Millisecond).Microseconds(), at, at+10*time.Millisecond)
	}
	wide(0)
	low, high, known := c.read()
	if d := high - low; !known || d != 10_000 {
		t.Errorf("bounds are %d µs apart, known %v", d, known)
	}
	c.learn(ahead+(time.Second+time.Millisecond).Microseconds(), time.Second, time.Second+2*time.Millisecond)
	if low, high, _ = c.read(); high-low != 2000 {
		t.Errorf("bounds are %d µs apart after a quick answer", high-low)
	}
	wide(2 * time.Second)
	if low, high, _ = c.read(); high-low != 2000 {
		t.Errorf("bounds are %d µs apart after a slow answer", high-low)
	}
	for i := range 4 { // the quick answer counts no more
		wide(time.Duration(2+i*6) * time.Second)
	}
	if low, high, _ = c.read(); high-low != 10_000 {
		t.Errorf("bounds are %d µs apart after a long time", high-low)
	}
}

func TestClockFollowsAServerWhoseClockIsSet(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		var c clock
		c.learn(1_800_000_000_000_000, 0, time.Millisecond)
		c.learn(1_800_000_000_000_000+step.Microseconds(), time.Millisecond, 2*time.Millisecond)
		want := 1_800_000_000_000_000 + step.Microseconds() + monotonic().Microseconds()
		low, high, _ := c.read()
		late := 1_800_000_000_000_000 + step.Microseconds() + monotonic().Microseconds() - want
		if low > high || low < want-5_000_000 || high > want+late+5_000_000 {
			t.Errorf("after a step of %v: from %d to %d, want about %d", step, low, high, want)
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	t.Parallel()
	var m memo
	state := make([]byte, 1000)
	for i := range 20_000 {
		m.set(fmt.Sprint(i), row{version: 1, state: state})
		must.Equal(t, fmt.Sprintf("version of a row in use after %d others", i), m.get("0").version, 1)
	}
	if n := len(m.now) + len(m.old); n > 2*memoBytes/1000 {
		t.Errorf("%d rows of 1,000 bytes are remembered", n)
	}
	m.set("0", row{version: 1, state: make([]byte, longestRow+1)})
	check.Equal(t, "version of a row that is too long", m.get("0").version, 0)
}
