package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// log writes down what it is told.
type log struct{ said []string }

func (l *log) say(format string, args ...any) { l.said = append(l.said, fmt.Sprintf(format, args...)) }

func (l *log) Number(id uint8, n int64, whole bool)    { l.say("%d=%d %v", id, n, whole) }
func (l *log) Length(id uint8, n int64)                { l.say("%d has %d", id, n) }
func (l *log) Short(id uint8, text []byte, whole bool) { l.say("%d=%q %v", id, text, whole) }
func (l *log) Other(id uint8, first byte)              { l.say("%d is %c", id, first) }
func (l *log) Variant()                                { l.say("variant") }
func (l *log) Raw(id uint8, part []byte, end bool) {
	last := len(l.said) - 1
	if prefix := fmt.Sprintf("%d+", id); last >= 0 && strings.HasPrefix(l.said[last], prefix) && !strings.HasSuffix(l.said[last], ".") {
		l.said[last] += string(part)
	} else {
		l.say("%s%s", prefix, part)
		last++
	}
	if end {
		l.said[last] += "."
	}
}

var tree = NewTree(
	Field{"n", Number, 1}, Field{"a.b", Number, 2}, Field{"list[].n", Number, 3}, Field{"s", Short, 4},
	Field{"len", Length, 5}, Field{"raw", Raw, 6}, Field{"[].n", Number, 7}, Field{"both", Short, 8}, Field{"both.n", Number, 9})

// read reads a text cut into parts, and returns what it was told.
func read(parts ...string) (said []string, end state) {
	var l log
	var s Scanner
	s.Reset(tree, &l)
	for _, part := range parts {
		for p := []byte(part); len(p) > 0; {
			n, element := s.Feed(p)
			if p = p[n:]; element {
				l.say("element")
			}
		}
	}
	return l.said, s.state
}

func TestFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"n":5}`:                                              `1=5 true`,
		` { "n" : -50 , "a" : { "b" : 0 } } `:                  `1=-50 true; 2=0 true`,
		`{"n":1.5,"a":{"b":1e3}}`:                              `1=0 false; 2=0 false`,
		`{"n":1234567890123456789}`:                            `1=0 false`,
		`{"n":"5","s":5,"len":null,"a":{"b":true}}`:            `1 is "; 4 is 0; 5 is n; 2 is t`,
		`{"n":5,"n":6}`:                                        `1=5 true; 1=6 true`,
		`{"N":5,"A":{"b":5},"a":{"B":5}}`:                      `variant; variant; variant`,
		`{"list":[{"n":1},{"m":[{"n":9}],"n":2},[{"n":3}],7]}`: `3=1 true; 3=2 true`,
		`{"s":"a\"b\\c\u0041\n"}`:                              `4="a\"b\\cA\n" true`,
		`{"s":"` + strings.Repeat("x", MaxShort+1) + `"}`:      `4="` + strings.Repeat("x", MaxShort) + `" false`,
		`{"s":"\ud83d\ude00"}`:                                 `4="" false`,
		`{"len":"abc\"","raw":"ab\/c"}`:                        `5 has 5; 6+ab\/c.`,
		`{"x":{"n":[1,"]}",{"n":2}]},"n":3}`:                   `1=3 true`,
		`{"\u006e":4}`:                                         `1=4 true`,
		`[{"n":1},[],{"n":2}]`:                                 `7=1 true; element; element; 7=2 true; element`,
		`[1,"a",null]`:                                         `element; element; element`,
		`{"both":{"n":5}}`:                                     `8 is {; 9=5 true`,
		`{"both":"x"}`:                                         `8="x" true`,
		`5`:                                                    ``,
		`"n"`:                                                  ``,
		`{"n":5;"a":6}`:                                        ``,
		`{"n" 5}`:                                              ``,
		`{"n":5]`:                                              `1=5 true`,
		`{"n":5}{"n":6}`:                                       `1=5 true`,
		`{"n":5`:                                               ``,
		strings.Repeat(`{"a":[`, 100000) + `{"n":5}`:           ``,
	} {
		said, end := read(text)
		check.Equal(t, text[:min(len(text), 80)], strings.Join(said, "; "), want)
		if len(text) > 1000 {
			continue
		}
		for i := range len(text) {
			cut, cutEnd := read(text[:i], text[i:])
			if strings.Join(cut, "; ") != strings.Join(said, "; ") || cutEnd != end {
				t.Errorf("%s cut at %d: %q", text, i, cut)
			}
		}
	}
}

func TestATreeWithAPathTwice(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]Field{{{"a", Number, 1}, {"a", Short, 2}}, {{"", Number, 1}}} {
		func() {
			defer func() { check.Equal(t, "it panics", recover() != nil, true) }()
			NewTree(fields...)
		}()
	}
}

// FuzzScanner compares with encoding/json: the same numbers, whatever a text is cut into. Of what is no JSON, only that
// cutting makes no difference.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"n":5,"a":{"b":-1},"list":[{"n":1.5}],"s":"x\u0041","len":"y","raw":"z"}`, `[{"n":1},{"n":2}]`, `{"n":`, `{"both":{"n":5}}`, `{"n":5]`,
	} {
		f.Add([]byte(text), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, step uint8) {
		said, end := read(string(text))
		var parts []string
		for rest := string(text); rest != ""; {
			n := min(int(step%7)+1, len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		again, endAgain := read(parts...)
		if fmt.Sprint(said) != fmt.Sprint(again) || end != endAgain {
			t.Fatalf("%q and in parts of %d: %q", said, step%7+1, again)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil || bytes.Count(text, []byte(`n`)) != 1 { // names that are there once
			return
		}
		if end != finished && end != broken {
			t.Fatalf("JSON that is not over: %d", end)
		}
		var n int64
		digits := string(object["n"])
		if _, err := fmt.Sscanf(digits, "%d", &n); err == nil && fmt.Sprint(n) == digits && len(digits) < 19 {
			if want := fmt.Sprintf("1=%d true", n); !strings.Contains(strings.Join(said, ";"), want) {
				t.Fatalf("%q, want %s", said, want)
			}
		}
	})
}
