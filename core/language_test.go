package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
)

// details are texts that name their language.
func details(tags ...string) map[string]func(core.Decision) string {
	texts := make(map[string]func(core.Decision) string, len(tags))
	for _, tag := range tags {
		texts[tag] = func(core.Decision) string { return "in " + tag }
	}
	return texts
}

// denialIn returns a denial of a limiter with these details.
func denialIn(t testing.TB, texts map[string]func(core.Decision) string) core.Decision {
	t.Helper()
	return decidedIn(t, core.Config{Limits: []core.Limit{everyone(5)}, Details: texts}, core.Result{RetryAfter: 9 * time.Second})
}

// detailOf returns the detail of a body, and its language.
func detailOf(t testing.TB, d core.Decision, accept string) [2]string {
	t.Helper()
	body, language := d.AppendProblem(nil, accept)
	return [2]string{parseProblem(t, body).Detail, language}
}

const english = "Rate limit exceeded. Retry in 9 seconds."

func TestDetailsByAcceptLanguage(t *testing.T) {
	t.Parallel()
	d := denialIn(t, details("de", "de-CH", "fr", "pt-BR", "zh-Hant"))
	own := denialIn(t, details("de", "en", "en-GB"))
	for _, tt := range []struct {
		name, accept     string
		detail, language string
	}{
		{"one that is known", "de", "in de", "de"},
		{"capitals do not matter", "DE", "in de", "de"},
		{"a variety that is known", "de-CH", "in de-CH", "de-CH"},
		{"a variety that is not", "de-AT", "in de", "de"},
		{"a variety of a variety", "de-CH-1996", "in de-CH", "de-CH"},
		{"a variety of a variety that is not", "de-AT-x-local", "in de", "de"},
		{"the language of a variety that is known", "pt", english, "en"},
		{"another variety than the known", "pt-PT", english, "en"},
		{"a script", "zh-Hant-TW", "in zh-Hant", "zh-Hant"},
		{"a language that begins alike", "deu", english, "en"},
		{"nothing", "", english, "en"},
		{"English", "en", english, "en"},
		{"a variety of English", "en-US,de;q=0.9", english, "en"},
		{"one that is not known", "sv", english, "en"},
		{"the first of equals", "fr, de", "in fr", "fr"},
		{"the heavier, in front", "fr;q=0.9, de;q=0.8", "in fr", "fr"},
		{"the heavier, behind", "fr;q=0.8, de;q=0.9", "in de", "de"},
		{"no weight is the heaviest", "fr;q=0.999, de", "in de", "de"},
		{"the known one behind the unknown", "sv, nb;q=0.9, fr;q=0.1", "in fr", "fr"},
		{"English behind another", "de;q=0.5, en;q=0.4", "in de", "de"},
		{"English before another", "de;q=0.4, en;q=0.5", english, "en"},
		{"what is refused", "de;q=0", english, "en"},
		{"what is refused, and a variety", "fr;q=0, de;q=0.001", "in de", "de"},
		{"the least weight there is", "de;q=0.001", "in de", "de"},
		{"a weight of one", "fr;q=0.5, de;q=1.000", "in de", "de"},
		{"blanks and tabs", " \tfr ;\tq=0.5 ,  de ; q=0.7", "in de", "de"},
		{"a capital Q", "fr;q=0.5, de;Q=0.7", "in de", "de"},
		{"anything", "*", english, "en"},
		{"anything, before one that is known", "*, de;q=0.5", "in de", "de"},
		{"a range with a wildcard in it", "de-*-CH", "in de", "de"},
		{"a wildcard in front", "*-CH", english, "en"},
		{"weights that are none", "de;q=2, de;q=-1, de;q=x, de;q=, de;x=1, de;q, de;, de;q=NaN, de;q=Inf, fr;q=0.1", "in fr", "fr"},
		{"nothing but commas", ",,,, ,,", english, "en"},
		{"nothing but dashes", "-, --, -de, ---de", english, "en"},
		{"a dash too many", "de-", "in de", "de"},
		{"garbage", "\x00\xff\xfe;;;=q,\r\nde\r\n,;q=1", "in de", "de"},
		{"underscores", "de_CH", english, "en"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, tt.accept, detailOf(t, d, tt.accept), [2]string{tt.detail, tt.language})
			// The fallback is the application's own English, if it has one.
			want := map[string]string{english: "in en", "in de-CH": "in de"}[tt.detail]
			if want == "" {
				return
			}
			check.Equal(t, tt.accept+", with an English of its own", detailOf(t, own, tt.accept)[0], want)
		})
	}
	check.Equal(t, "a variety of English", detailOf(t, own, "en-GB-oed, de"), [2]string{"in en-GB", "en-GB"})
}

// Without Config.Details there is no choice, and no Content-Language.
func TestDetailsByDefault(t *testing.T) {
	t.Parallel()
	d := denialIn(t, nil)
	for _, accept := range []string{"", "de", "en", "*"} {
		check.Equal(t, accept, detailOf(t, d, accept), [2]string{english, ""})
	}
}

// What a client sends costs no more than its reading.
func TestAcceptLanguageOfAnyLength(t *testing.T) {
	t.Parallel()
	d := denialIn(t, details("de", "fr"))
	for name, accept := range map[string]string{
		"10,000 unknown languages":    strings.Repeat("sv;q=0.9,", 10_000) + "de",
		"10,000 times nothing":        strings.Repeat(",", 10_000) + "de",
		"a language of a megabyte":    strings.Repeat("x", 1<<20),
		"half a megabyte of subtags":  strings.Repeat("x-", 1<<18) + "x",
		"10,000 parameters":           "sv" + strings.Repeat(";q=1", 10_000),
		"10,000 languages of no name": strings.Repeat(";q=1,", 10_000),
	} {
		least := time.Hour // of some attempts: a busy machine can stand still during one
		for attempts := 0; least > time.Second && attempts < 10; attempts++ {
			start := time.Now()
			body, language := d.AppendProblem(nil, accept)
			least = min(least, time.Since(start))
			check.Equal(t, name+": so far nobody reads", [2]string{parseProblem(t, body).Detail, language}, [2]string{english, "en"})
		}
		if least > time.Second {
			t.Errorf("%s took %v", name, least)
		}
	}
	check.Equal(t, "a known language before 10,000 others", detailOf(t, d, "de;q=0.8,"+strings.Repeat("sv;q=0.9,", 10_000))[0], "in de")
}

// A detail is text: whatever an application returns stays within its string.
func TestDetailsAreEscaped(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                   "",
		"quotes":                    `a "quoted" word`,
		"an end of the body":        `","status":200,"x":"`,
		"backslashes":               `\ \u0041 \"`,
		"control characters":        "a\x00b\tc\r\nd\x1b[0m\x7f",
		"markup":                    "</script><script>alert(1)</script>&amp;",
		"line separators of Script": "a\u2028b\u2029c",
		"what is no UTF-8":          "a\xff\xfeb\xc3",
		"other scripts":             "レート制限を超えました 🚦",
		"the text of a megabyte":    strings.Repeat("x", 1<<20),
	} {
		d := denialIn(t, map[string]func(core.Decision) string{"de": func(core.Decision) string { return text }})
		body, language := d.AppendProblem(nil, "de")
		p := parseProblem(t, body) // which refuses other fields, and more than one value
		if want := strings.ToValidUTF8(text, "\uFFFD"); strings.ReplaceAll(p.Detail, "\uFFFD\uFFFD", "\uFFFD") != want || language != "de" {
			t.Errorf("%s: got %.80q in %q, want %.80q", name, p.Detail, language, want)
		}
		if p.Status != 429 || p.Type != quotaExceeded || !utf8.Valid(body) {
			t.Errorf("%s: the body reads %.300s", name, body)
		}
		if strings.ContainsAny(string(body), "<>\x00\r\n") {
			t.Errorf("%s: the body holds markup or control characters: %.300q", name, body)
		}
	}
}

func TestDetailsGetTheDenial(t *testing.T) {
	t.Parallel()
	texts := map[string]func(core.Decision) string{"de": func(d core.Decision) string {
		b, ok := d.Binding()
		return fmt.Sprintf("%v %v %q %v %v", d.Status(), d.Reason, b.Rule.Name, ok, d.RetryAfter)
	}}
	check.Equal(t, "the zero decision", detailOf(t, core.Decision{}, "de")[0], "Rate limit exceeded.")
	check.Equal(t, "detail", detailOf(t, denialIn(t, texts), "de")[0], `429 limit exceeded "default" true 9s`)
	texts["de"] = func(d core.Decision) string { return fmt.Sprint(d.Status(), d.Reason, d.Err) }
	down := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{everyone(5).OnOutage(core.Deny)}, Details: texts}).Allow(&request{})
	body, language := down.AppendProblem(nil, "de")
	got := parseProblem(t, body)
	check.All(t, "an outage", []any{got.Detail, got.Status, language}, "503 outage denied "+errDown.Error(), 503, "de")
	check.Equal(t, "an outage in English", detailOf(t, down, "fr"), [2]string{"Service temporarily unavailable. Retry in 1 second.", "en"})
}

// Changing the map of a Config after New changes no limiter.
func TestNewKeepsNoDetailsOfTheCaller(t *testing.T) {
	t.Parallel()
	texts := details("de")
	d := denialIn(t, texts)
	clear(texts)
	check.Equal(t, "detail", detailOf(t, d, "de"), [2]string{"in de", "de"})
}

// Whatever a client sends, it gets one of the texts, whole.
func FuzzAcceptLanguage(f *testing.F) {
	for _, accept := range []string{"", "de", "de-CH;q=0.8, fr;q=0.9", "*", "en-GB", ";q=1", "-,-;q=", "de;q=NaN", "de;q=1e400", "\x00", "de\xff;q=0.5", strings.Repeat("a-", 50)} {
		f.Add(accept)
	}
	tags := []string{"de", "de-CH", "fr", "zh-Hant", "en-GB"}
	d := denialIn(f, details(tags...))
	want := map[string]string{"en": english}
	for _, tag := range tags {
		want[tag] = "in " + tag
	}
	f.Fuzz(func(t *testing.T, accept string) {
		body, language := d.AppendProblem(nil, accept)
		if text, known := want[language]; !known || parseProblem(t, body).Detail != text {
			t.Errorf("%q: got %s in %q", accept, body, language)
		}
		lower := strings.ToLower(accept)
		switch {
		case language == "en":
		case !strings.Contains(lower, strings.ToLower(language)):
			t.Errorf("%q: got %q, which it does not name", accept, language)
		}
		if again, l := d.AppendProblem(nil, accept); string(again) != string(body) || l != language {
			t.Errorf("%q: got %s, then %s", accept, body, again)
		}
	})
}
