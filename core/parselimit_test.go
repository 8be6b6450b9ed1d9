package core_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Skip(err)
	}
	return loc
}

func TestParseLimit(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct {
		text string
		want core.Limit
		says string // what String returns, if not the text
	}{
		{"100/minute", core.PerMinute(100), ""},
		{" 100 / Minute\n", core.PerMinute(100), "100/minute"},
		{"100_000/DAY", core.PerDay(100_000), "100000/day"},
		{"100/m", core.PerMinute(100), "100/minute"},
		{"100/1m", core.PerMinute(100), "100/minute"},
		{"100/60s", core.PerMinute(100), "100/minute"},
		{"5 per 15m", core.Per(5, 15*time.Minute), "5/15m"},
		{"5 per 15 minutes", core.Per(5, 15*time.Minute), "5/15m"},
		{"5 requests per 15 min", core.Per(5, 15*time.Minute), "5/15m"},
		{"10r/s", core.PerSecond(10), "10/second"},
		{"7/1h30m", core.Per(7, 90*time.Minute), ""},
		{"7/2d", core.Per(7, 48*time.Hour), "7/48h"},
		{"7/week", core.PerWeek(7), ""},
		{"7/1w1d", core.Per(7, 8*24*time.Hour), "7/192h"},
		{"100/s burst 200", core.PerSecond(100).Burst(200), "100/second burst 200"},
		{"100/s burst=200", core.PerSecond(100).Burst(200), "100/second burst 200"},
		{"100/second bucket", core.PerSecond(100).TokenBucket(), ""},
		{"100/s token bucket burst 9", core.PerSecond(100).TokenBucket().Burst(9), "100/second burst 9 bucket"},
		{"1000/day fixed", core.PerDay(1000).FixedWindow(), ""},
		{"1000/d fixed window jitter", core.PerDay(1000).FixedWindow().Jitter(), "1000/day fixed jitter"},
		{"100/minute burst 20 debt 0", core.PerMinute(100).Burst(20).Debt(0), ""},
		{"100/minute debt=1_000 bucket", core.PerMinute(100).Debt(1000).TokenBucket(), "100/minute bucket debt 1000"},
		{"100/5h from first use", core.Per(100, 5*time.Hour).FromFirstUse(), ""},
		{"100 per 5 hours FROM  First use soft 80", core.Per(100, 5*time.Hour).FromFirstUse().Soft(80), "100/5h from first use soft 80"},
		{"7/week fixed window from first use", core.PerWeek(7).FixedWindow().FromFirstUse(), "7/week from first use"},
		{"1000/day sliding jitter", core.PerDay(1000).SlidingWindow().Jitter(), ""},
		{"1000/day sliding window", core.PerDay(1000).SlidingWindow(), "1000/day sliding"},
		{"5/15m log", core.Per(5, 15*time.Minute).SlidingLog(), ""},
		{"5/15m sliding log", core.Per(5, 15*time.Minute).SlidingLog(), "5/15m log"},
		{"10/second leaky 1s", core.PerSecond(10).LeakyBucket(time.Second), ""},
		{"10/s leaky bucket 1 second burst 3", core.PerSecond(10).Burst(3).LeakyBucket(time.Second), "10/second burst 3 leaky 1s"},
		{"10/s wait 1s500ms", core.PerSecond(10).Wait(1500 * time.Millisecond), "10/second wait 1s500ms"},
		{"10/s bucket wait 1s", core.PerSecond(10).TokenBucket().Wait(time.Second), "10/second bucket wait 1s"},
		{"10/250ms", core.Per(10, 250*time.Millisecond), ""},
		{"10/1500us", core.Per(10, 1500*time.Microsecond), "10/1ms500us"},
		{"100/hour soft 80", core.PerHour(100).Soft(80), ""},
		{"1000/day UTC", core.PerCalendarDay(1000, time.UTC), ""},
		{"1000/day Europe/Berlin soft 800", core.PerCalendarDay(1000, berlin).Soft(800), "1000/day Europe/Berlin soft 800"},
		{"1000 per 1 day Europe/Berlin", core.PerCalendarDay(1000, berlin), "1000/day Europe/Berlin"},
		{"100000/month Europe/Berlin", core.PerMonth(100_000, berlin), ""},
		{"100/month from 31 UTC", core.PerBillingMonth(100, 31, time.UTC), ""},
		{"100/month UTC from 1", core.PerMonth(100, time.UTC), "100/month UTC"},
		{"concurrent 2", core.Concurrent(2), ""},
		{"Concurrent 2 lease 30s wait=5s", core.Concurrent(2).Lease(30 * time.Second).Wait(5 * time.Second), "concurrent 2 wait 5s lease 30s"},
	} {
		got, err := core.ParseLimit(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if c.says == "" {
			c.says = c.text
		}
		same(t, c.text, got, c.want)
		check.Equal(t, c.text+", written, and from code", [2]string{got.String(), c.want.String()}, [2]string{c.says, c.says})
		again, err := core.ParseLimit(got.String())
		if err != nil {
			t.Errorf("%q: %v", got, err)
		}
		same(t, "again "+c.text, again, got)
	}
}

// same fails the test unless two limits count alike.
func same(tb testing.TB, what string, got, want core.Limit) {
	tb.Helper()
	a, err := got.Rule()
	b, err2 := want.Rule()
	if err != nil || err2 != nil || a != b {
		tb.Errorf("%s: %+v (%v), want %+v (%v)", what, a, err, b, err2)
	}
	check.Equal(tb, what+": written", got.String(), want.String())
}

func TestParseLimitSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     `"": there is no limit, expected one such as "100/minute"`,
		" \t":                                  `there is no limit`,
		"100/mintue":                           `"100/mintue": unknown unit "mintue"; did you mean "minute"?`,
		"100/fortnight":                        `unknown unit "fortnight", expected second, minute, hour, day, week or month`,
		"100/year":                             `unknown unit "year", expected`,
		"minute":                               `expected a number first, as in "100/minute", got "minute"`,
		"ten/minute":                           `got "ten/minute"`,
		"-5/minute":                            `expected a number first, as in "100/minute", got "-5/minute"`,
		"+5/minute":                            `got "+5/minute"`,
		"100":                                  `expected "/" or "per" after the number, as in "100/minute", got ""`,
		"10-S":                                 `expected "/" or "per" after the number, as in "10/minute", got "-S"`,
		"10k/s":                                `got "k/s"`,
		"1.5/s":                                `expected a whole number, which may have _ between its digits, got "1.5/s"`,
		"1,000/s":                              `expected a whole number`,
		"1__0/s":                               `expected a whole number`,
		"10_/s":                                `expected a whole number`,
		"1e6/s":                                `got "e6/s"`,
		"٥/minute":                             `got "٥/minute"`,
		"100/1.5h":                             `expected a whole number`,
		"100/15":                               `expected a unit such as second, minute, hour or day, got ""`,
		"100/":                                 `expected a unit`,
		"10/M":                                 `the unit "M" could be minutes or months: write "m" or "month"`,
		"0/minute":                             `quota must be at least 1, got 0`,
		"5/0s":                                 `window must be at least 1ms, got 0s`,
		"5/10us":                               `window must be at least 1ms`,
		"99999999999999999999/s":               `the number 99999999999999999999 is too large`,
		"9223372036854775807/s":                `too large to count exactly`,
		"1/9223372036854775807w":               `the time is too long`,
		"1/100000h9223372036854775807s":        `the time is too long`,
		"5/99999d":                             `window must be at most 100 years`,
		"100/month":                            `months are those of a calendar, which needs a time zone, as in "100/month UTC"`,
		"100/2 months UTC":                     `months are those of a calendar`,
		"100/month local":                      `the zone Local is another one on each machine`,
		"100/month Europe/Brelin":              `"Europe/Brelin" is neither an option nor a known time zone`,
		"100/day ../../etc/passwd":             `is neither an option nor a known time zone`,
		"100/day UTC Europe/Berlin":            `time zone is given twice`,
		"100/2d UTC":                           `unknown option "UTC"`,
		"100/hour UTC":                         `unknown option "UTC", expected one of burst, fixed`,
		"100/hour wait 1d UTC":                 `unknown option "UTC"`,
		"100/hour from 5":                      `"from" is for months`,
		"100/month from 32 UTC":                `the day of the month must be from 1 to 31, got 32`,
		"100/day UTC fixed":                    `calendar days and months are fixed windows, and have no other algorithm`,
		"100/day UTC burst 5":                  `Burst belongs to a token bucket`,
		"100/day UTC jitter":                   `jitter belongs to windows`,
		"100/minute brust 20":                  `unknown option "brust"; did you mean "burst"?`,
		"100/minute burst":                     `burst needs how many units, as in "burst 20"`,
		"100/minute burst many":                `burst needs how many units, as in "burst 20", got "many"`,
		"100/minute burst 20x":                 `unexpected "x" after burst 20`,
		"100/minute burst 0":                   `burst must be at least 1, got 0`,
		"100/minute burst 2 burst 3":           `burst is given twice`,
		"100/minute fixed sliding":             `a limit has one algorithm, got a second, "sliding"`,
		"100/minute log log":                   `got a second, "log"`,
		"100/minute fixed burst 5":             `Burst belongs to a token bucket, not to a fixed window`,
		"100/minute jitter":                    `jitter belongs to windows, not to a token bucket`,
		"100/minute debt":                      `debt needs how many units, as in "debt 500"`,
		"100/minute debt 5 debt 5":             `debt is given twice`,
		"concurrent 2 debt 5":                  `a debt belongs to limits that count requests, not to a concurrency limit`,
		"5/minute log debt 65531":              `a debt of 65531 units beyond 5 is too large to count exactly`,
		"100/5h from first":                    `expected "from first use"`,
		"100/5h from first used":               `expected "from first use"`,
		"100/5h from use":                      `"from" is for months, as in "1000/month from 15 UTC", and for windows, as in "100/5h from first use"`,
		"100/5h from first use from first use": `from first use is given twice`,
		"100/5h log from first use":            `a limit has one algorithm, got a sliding log and a fixed window`,
		"100/5h from first use jitter":         `jitter belongs to windows of the clock`,
		"100/day UTC from first use":           `calendar days and months begin with the calendar, and not with first use`,
		"100/month from first use UTC":         `calendar days and months begin with the calendar, and not with first use`,
		"concurrent 2 from first use":          `a concurrency limit can have no other algorithm`,
		"100/minute jitter=1":                  `unexpected "=1"`,
		"100/minute token":                     `expected "token bucket"`,
		"100/minute leaky":                     `leaky needs the longest wait, as in "leaky 1s"`,
		"100/minute leaky 1s wait 2s":          `wait is given twice`,
		"100/minute wait 2h":                   `the wait must be from 0 to 1h0m0s`,
		"100/minute lease 5s":                  `Lease belongs to a concurrency limit`,
		"100/minute soft 100":                  `the soft limit must be at least 1 and below`,
		"100/minute, 1000/day":                 `unexpected ","`,
		"100/minute; 1000/day":                 `unexpected ";"`,
		"100/minute\x00":                       `"100/minute\x00": unexpected "\x00"`,
		"100/minute\u00a0burst 5":              `unexpected "\u00a0burst"`,
		"100/minute \u202eburst 5":             `unknown option "\u202eburst"`,
		"concurrent":                           `concurrent needs how many, as in "concurrent 10"`,
		"concurrent ten":                       `concurrent needs how many, as in "concurrent 10", got "ten"`,
		"concurrent 2 burst 5":                 `a concurrency limit can have neither Burst nor Jitter`,
		"concurrent 2 fixed":                   `a concurrency limit can have no other algorithm`,
		"concurrent 2 UTC":                     `unknown option "UTC"`,
	} {
		l, err := core.ParseLimit(text)
		if err == nil || !strings.HasPrefix(err.Error(), "weblimit: ParseLimit: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		check.Equal(t, fmt.Sprintf("%q, beside its error", text), l.String(), "")
	}
	_, err := core.ParseLimit(strings.Repeat("9", 1<<20))
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "at most 256 bytes, got 1048576") {
		t.Errorf("1 MiB: %.300v", err)
	}
}

func TestMustParseLimit(t *testing.T) {
	t.Parallel()
	defer func() {
		if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "unknown unit") {
			t.Errorf("panics with %v", p)
		}
	}()
	same(t, "a limit", core.MustParseLimit("5/s"), core.PerSecond(5))
	core.MustParseLimit("5/sceond")
}

// Each algorithm has a word, and the text of such a limit is read as it.
func TestEveryAlgorithmHasText(t *testing.T) {
	t.Parallel()
	texts := map[store.Algorithm]string{
		store.TokenBucket: "5/minute bucket", store.FixedWindow: "5/minute fixed", store.SlidingWindow: "5/minute sliding",
		store.SlidingLog: "5/minute log", store.Calendar: "5/day UTC", store.Concurrency: "concurrent 5",
	}
	for _, algorithm := range counting.Algorithms() {
		text := texts[algorithm]
		if algorithm == store.Ledger {
			continue // no limit is made with it
		}
		limit, err := core.ParseLimit(text)
		if err != nil {
			t.Errorf("%v: %v", algorithm, err)
			continue
		}
		rule := must.Get(limit.Rule())(t)
		check.All(t, text, []any{rule.Algorithm, limit.String()}, algorithm, text)
	}
}

func TestLimitAsText(t *testing.T) {
	t.Parallel()
	inCode := core.PerMinute(100).By(keyfuncs.Everyone()).Named("api").Cost(2).Penalty(core.Block{After: 9, Within: time.Hour, For: time.Hour})
	of := func(numbers core.Limit) core.Limit {
		return numbers.By(keyfuncs.Everyone()).Named("api").Cost(2).Penalty(core.Block{After: 9, Within: time.Hour, For: time.Hour})
	}

	t.Run("a flag replaces the numbers and keeps the rest", func(t *testing.T) {
		t.Parallel()
		for args, want := range map[string]core.Limit{
			"":                      inCode,
			"-limit=7/day":          of(core.PerDay(7)),
			"-limit=9/15m log":      of(core.Per(9, 15*time.Minute).SlidingLog()),
			"-limit=100/s burst 50": of(core.PerSecond(100).Burst(50)),
		} {
			limit := inCode
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			flags.TextVar(&limit, "limit", limit, "requests per client")
			check.Equal(t, "the default shown", flags.Lookup("limit").DefValue, "100/minute")
			var list []string
			if args != "" {
				list = []string{args}
			}
			must.OK(t, flags.Parse(list))
			same(t, args, limit, want)
			if _, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
	})
	t.Run("text that is wrong leaves the limit as it is", func(t *testing.T) {
		t.Parallel()
		limit := inCode
		check.Fails(t, "UnmarshalText", limit.UnmarshalText([]byte("5/sceond")), `did you mean "second"?`)
		if err := limit.UnmarshalText(make([]byte, 1<<20)); err == nil || len(err.Error()) > 400 {
			t.Errorf("1 MiB: %.300v", err)
		}
		same(t, "the limit", limit, inCode)
	})
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		type config struct {
			Limit core.Limit            `json:"limit"`
			Plans map[string]core.Limit `json:"plans"`
			Unset core.Limit            `json:"unset,omitzero"`
		}
		var read config
		must.OK(t, json.Unmarshal([]byte(`{"limit":"10/s burst 20","plans":{"pro":"1000/day UTC"}}`), &read))
		same(t, "limit", read.Limit, core.PerSecond(10).Burst(20))
		same(t, "plan", read.Plans["pro"], core.PerCalendarDay(1000, time.UTC))
		text, err := json.Marshal(read)
		if want := `{"limit":"10/second burst 20","plans":{"pro":"1000/day UTC"}}`; err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	})
	t.Run("what has no text is an error", func(t *testing.T) {
		t.Parallel()
		for what, l := range map[string]core.Limit{
			"the zero Limit":       {},
			"a zone without name":  core.PerMonth(5, time.FixedZone("here", 3600)),
			"a zone of that name":  core.PerMonth(5, time.FixedZone("UTC", 3600)),
			"no zone":              core.PerMonth(5, nil),
			"a negative number":    core.PerMinute(-5),
			"nanoseconds":          core.Per(5, time.Second+1),
			"two algorithms":       core.PerMinute(5).FixedWindow().SlidingLog(),
			"a tier of Whole":      core.PerMinute(5).Cost(6),
			"a wait of no length":  core.PerMinute(5).Wait(-1),
			"a burst that is zero": core.PerMinute(5).Burst(0),
		} {
			if text, err := l.MarshalText(); err == nil {
				t.Errorf("%s: %q", what, text)
			}
		}
	})
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"100/minute", "5 per 15 minutes log", "10r/s burst=20", "1000/day Europe/Berlin soft 9", "7/month from 31 UTC",
		"10/s leaky bucket 1s500ms", "concurrent 2 lease 30s wait 5s", "1_0/1h30m sliding jitter", "100/mintue", "9/ M\x00", "1/18446744073709551616s",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := core.ParseLimit(text)
		if err != nil {
			if len(err.Error()) > 10*min(len(text), 256)+300 {
				t.Errorf("an error of %d bytes for %d", len(err.Error()), len(text))
			}
			return
		}
		again, err := core.ParseLimit(l.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, l, err)
		}
		same(t, text, again, l)
		marshalled, err := l.MarshalText()
		if err != nil || string(marshalled) != l.String() {
			t.Fatalf("%q: %q, %v", text, marshalled, err)
		}
	})
}
