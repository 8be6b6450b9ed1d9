package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Whatever a client chooses as its key, a terminal shows it as text.
func TestHostileTextIsHarmless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":                    {"user:42", "user:42"},
		"other scripts":            {"user:Ωmega-客户", "user:Ωmega-客户"},
		"an accent":                {"e\u0301", "e\u0301"},
		"a colour":                 {"\x1b[31mred", `\x1b[31mred`},
		"the title of a window":    {"\x1b]0;pwned\a", `\x1b]0;pwned\x07`},
		"a clipboard":              {"\x1b]52;c;cm0=\x1b\\", `\x1b]52;c;cm0=\x1b\\`},
		"CSI of one byte":          {"a\u009b31m", `a\u009b31m`},
		"CSI that is no UTF-8":     {"a\x9b31m", `a\x9b31m`},
		"a line":                   {"a\r\nb", `a\x0d\x0ab`},
		"a line of Unicode":        {"a\u2028b\u0085", `a\u2028b\u0085`},
		"backspaces":               {"a\b\x7f", `a\x08\x7f`},
		"right to left":            {"user\u202e24", `user\u202e24`},
		"isolates":                 {"\u2066x\u2069", `\u2066x\u2069`},
		"invisible":                {"a\u200b\u200d\ufeffb", `a\u200b\u200d\ufeffb`},
		"blank letters":            {"\u3164\u115f\u2800\u00a0", `\u3164\u115f\u2800\u00a0`},
		"tags":                     {"\U000e0041", `\U000e0041`},
		"private use":              {"\ue000", `\ue000`},
		"a variation selector":     {"a\ufe0f", `a\ufe0f`},
		"a mark with nothing":      {"\u0301x", `\u0301x`},
		"a mark after an escape":   {"\x1b\u0301\u0301\u0301", `\x1b` + "\u0301\u0301" + `\u0301`},
		"a pile of marks":          {"a\u0301\u0301\u0301", "a\u0301\u0301" + `\u0301`},
		"an escape that is no one": {`\x1b`, `\\x1b`},
		"no UTF-8":                 {"\xff", `\xff`},
		"a surrogate":              {"\xed\xa0\x80", `\xed\xa0\x80`},
	} {
		check.Equal(t, fmt.Sprintf("%s: Safe(%q)", name, c.in), Safe(c.in, 0), c.want)
	}
}

func TestTextIsCutByItsWidth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      string
		columns int
		want    string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abcde…"},
		{"客户客户", 8, "客户客户"},
		{"客户客户", 7, "客户客…"},
		{"客户客户", 6, "客户…"},
		{"a\x1bb", 5, `a…`},
		{"a\x1bb", 6, `a\x1bb`},
		{strings.Repeat("x", 1000), 1, "…"},
	} {
		check.Equal(t, fmt.Sprintf("Safe(%.20q, %d)", c.in, c.columns), Safe(c.in, c.columns), c.want)
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("user:42", 5)
	f.Add("\x1b]0;x\a\u202e客e\u0301\u0301\u0301\\", 7)
	f.Fuzz(func(t *testing.T, in string, columns int) {
		columns = max(columns%200, 0)
		out := Safe(in, columns)
		if columns > 0 && Width(out) > columns {
			t.Errorf("Safe(%q, %d) has %d columns: %q", in, columns, Width(out), out)
		}
		if !utf8.ValidString(out) {
			t.Errorf("Safe(%q) is no UTF-8: %q", in, out)
		}
		marks := maxMarks
		for _, r := range out {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("Safe(%q) has %U", in, r)
			}
			if unicode.In(r, unicode.Mn, unicode.Me) {
				marks++
			} else {
				marks = 0
			}
			if marks > maxMarks {
				t.Errorf("Safe(%q) has %d marks on a letter: %q", in, marks, out)
			}
		}
	})
}

// JSON is in ASCII, and says the same.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"\u202e\u001b[31m","b":[1e400,null]}`)
	f.Add("\"\x7f\u202e\U0001f600\xff\"")
	f.Fuzz(func(t *testing.T, in string) {
		out, err := JSON([]byte(in))
		if err != nil {
			return
		}
		for _, b := range out {
			if b != '\n' && (b < ' ' || b > '~') {
				t.Fatalf("JSON(%q) has %q: %q", in, b, out)
			}
		}
		if !utf8.ValidString(in) {
			return // what is no UTF-8 becomes U+FFFD, as JSON wants it
		}
		var before, after any
		one, two := json.NewDecoder(strings.NewReader(in)), json.NewDecoder(bytes.NewReader(out))
		one.UseNumber()
		two.UseNumber()
		if err := one.Decode(&before); err != nil {
			t.Skip(err)
		}
		must.OK(t, two.Decode(&after))
		if b, _ := json.Marshal(before); string(b) != func() string { a, _ := json.Marshal(after); return string(a) }() {
			t.Errorf("JSON(%q) says something else: %q", in, out)
		}
	})
}

// A text that is nested deeply does not become a hundred times as long.
func TestDeepJSONStaysSmall(t *testing.T) {
	t.Parallel()
	deep := `{"a":"\\\"]]","b":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"
	out, err := JSON([]byte(deep))
	if err != nil || len(out) > 2*len(deep) {
		t.Errorf("%d bytes become %d: %v", len(deep), len(out), err)
	}
	if out, err := JSON([]byte(`{"a":"[[[["}`)); err != nil || string(out) != "{\n  \"a\": \"[[[[\"\n}\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestTablesAreAligned(t *testing.T) {
	t.Parallel()
	table := Table{Columns: []Column{{Title: "CLIENT", Most: 20, Least: 6}, {Title: "N", Right: true}, {Title: "WHY"}}}
	table.Add(Cell{Text: "客户"}, Cell{Text: "5"}, Cell{Text: "x"})
	table.Add(Cell{Text: "a\nb\x1b[2J"}, Cell{Text: "1,000"}, Cell{Text: "y"})
	table.Add(Cell{Text: strings.Repeat("long", 10)}, Cell{Text: "7", Style: Red}, Cell{Text: ""})
	for _, c := range []struct {
		width  int
		colour bool
		want   string
	}{
		{0, false, `
CLIENT                    N  WHY
客户                      5  x
a\x0ab\x1b[2J         1,000  y
longlonglonglonglon…      7
`},
		{20, false, `
CLIENT        N  WHY
客户          5  x
a\x0ab…   1,000  y
longlon…      7
`},
		{0, true, "\n\x1b[2mCLIENT\x1b[0m                    \x1b[2mN\x1b[0m  \x1b[2mWHY\x1b[0m\n" +
			"客户                      5  x\n" + `a\x0ab\x1b[2J         1,000  y` + "\nlonglonglonglonglon…      \x1b[31m7\x1b[0m\n"},
	} {
		var b bytes.Buffer
		(&Out{W: &b, Width: c.width, Colour: c.colour}).Table(&table)
		if got := "\n" + b.String(); got != c.want {
			t.Errorf("%d columns, colour %v: got %s\nwant %s", c.width, c.colour, got, c.want)
		}
	}
}

func TestItemsAreWrapped(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	(&Out{W: &b, Width: 36}).Item("last denial", "Used up: nothing left of 5 per 1m. \x1b[2J")
	want := "  last denial  Used up: nothing left\n               of 5 per 1m. \\x1b[2J\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A key that is pasted into a shell stays a word: nothing that a client has put into it is run.
func TestKeysCanBePastedIntoAShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"user:42":                           "user:42",
		"ip:2001:db8::/64":                  "ip:2001:db8::/64",
		"key#abc_-":                         "key#abc_-",
		"ip:192.0.2.7|user:5":               "'ip:192.0.2.7|user:5'",
		"user:$(touch x)":                   "'user:$(touch x)'",
		"user:`id`;id&id":                   "'user:`id`;id&id'",
		"user:'$(id)":                       `$'user:\x27$(id)'`,
		`user:\'$(id)`:                      `$'user:\\\x27$(id)'`,
		"user:\x1b[2J":                      `$'user:\x1b[2J'`,
		"--for=9d":                          "'--for=9d'",
		"#x":                                "'#x'",
		"=ls":                               "'=ls'",
		"~root":                             "'~root'",
		"*":                                 "'*'",
		"客户":                                "'客户'",
		"":                                  "''",
		"user:" + strings.Repeat("x", 100):  "user:xxxxxxxxxxxxxxxxxxxxxxxx…",
		"user:$" + strings.Repeat("x", 100): "'user:$xxxxxxxxxxxxxxxxxxxxx…'",
	} {
		if got := Key(in).safe(30); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
}

// Real shells read what is shown as the key, and run nothing.
func FuzzKeysInShells(f *testing.F) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip("no bash")
	}
	f.Add("user:42")
	f.Add(`user:'$(echo x)\'`)
	f.Add("a\x1b\n\u202e\\'`id`")
	f.Fuzz(func(t *testing.T, key string) {
		if strings.Contains(key, "\x00") || key == "" || len(key) > 200 {
			return // no argument can hold a zero
		}
		cmd := exec.Command(bash, "--norc", "-c", "printf %s "+Key(key).safe(0))
		cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=/nonexistent"}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != key {
			t.Errorf("%q is shown as %s, which bash reads as %q (%v)", key, Key(key).safe(0), out, err)
		}
	})
}
