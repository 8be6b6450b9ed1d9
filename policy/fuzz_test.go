package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/policy"
)

// A file, whatever is in it, is loaded or refused by an *Error, and no secret is in that.
func FuzzParse(f *testing.F) {
	_, all := wrongFiles(&testing.T{})
	for _, w := range all {
		f.Add([]byte(w.text))
	}
	for _, c := range fieldCases {
		f.Add([]byte(c.variant(1)))
	}
	f.Add([]byte("a: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\npolicies: [*c,*c]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := policy.Parse("x", text, policy.Options{AnyName: true, WithoutSecrets: true, Logger: quiet().Logger})
		if made, err := policy.Format(policy.File{Name: "x", Text: text}); err == nil && len(made) == 0 {
			t.Fatal("formatted to nothing")
		}
		var wrong *policy.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("%T: %v", err, err)
		}
		if err != nil && len(wrong.Problems) == 0 {
			t.Fatal("refused without a reason")
		}
	})
}

func TestBombs(t *testing.T) {
	t.Parallel()
	aliases := "x0: &x0 [a, a, a, a, a, a, a, a, a]\n"
	for i := 1; i < 12; i++ {
		one, before := string(rune('a'+i)), string(rune('a'+i-1))
		if i == 1 {
			before = "x0"
		}
		aliases += one + ": &" + one + " [" + strings.TrimSuffix(strings.Repeat("*"+before+", ", 9), ", ") + "]\n"
	}
	for what, text := range map[string]string{
		"aliases of aliases": aliases,
		"deep lists":         "policies: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"deep maps":          "policies: " + strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000),
		"a large file":       "policies: {}\n#" + strings.Repeat("x", 9<<20),
		"many wrong fields":  strings.Repeat("x: 1\n", 20_000),
		"bytes":              "\xff\xfe\x00",
	} {
		_, err := policy.Parse("x", []byte(text))
		var wrong *policy.Error
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", what, err)
		} else if len(wrong.Problems) > 100 || len(err.Error()) > 100_000 {
			t.Errorf("%s: an error of %d problems and %d bytes", what, len(wrong.Problems), len(err.Error()))
		}
	}
}

// An error never shows what stands where a secret belongs, whatever is wrong with it.
func TestErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2"
	for _, text := range []string{
		"policies: {p: {key_secret: " + secret + ", limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {key_secret: [" + secret + "], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {key_secret: {" + secret + ": 1}, limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {bypass: [{tokens: {header: X-T, values: " + secret + "}}], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {bypass: [{tokens: {header: X-T, values: [\"${" + secret + "}\"]}}], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {bypass: [{tokens: " + secret + "}], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {bypass: [{token: " + secret + "}], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {key_secret: !" + secret + " x, limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {key_secret: *" + secret + ", limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {tokens: " + secret + ", limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {bypass: [{tokens: {header: X-T, values: [!" + secret + " x, *" + secret + "]}}], limits: {a: {limit: 1/s, by: ip}}}}",
		"policies: {p: {key_secret: !!x " + secret + ", limits: {a: {limit: 1/s, by: ip}}}}",
	} {
		if _, err := policy.Parse("x", []byte(text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s:\n%v", text, err)
		}
	}
}

// Secrets that YAML takes for numbers or for something that it does not know.
func TestErrorsShowNoOddSecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"0123456701234567", "0x68756e746572", "99999999999999999999999", "1_234_567_890", "0b1010101010101010", ".inf", "1e999999"} {
		for _, text := range []string{
			"policies: {p: {key_secret: " + secret + ", limits: {a: {limit: 1/s, by: ip}}}}",
			"policies: {p: {bypass: [{tokens: {header: X-T, values: [" + secret + "]}}], limits: {a: {limit: 1/s, by: ip}}}}",
			"policies: {p: {bypass: [{tokens: " + secret + "}], limits: {a: {limit: 1/s, by: ip}}}}",
		} {
			if _, err := policy.Parse("x", []byte(text)); err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("%s:\n%v", text, err)
			}
		}
	}
}

// A file is read, or refused, within a time that its size bounds, whatever is wrong with it.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	var unknown strings.Builder
	for i := range long.Rounds(20_000, 200_000) {
		fmt.Fprintf(&unknown, "f%d: 1\n", i)
	}
	for name, text := range map[string]string{"unknown fields": unknown.String(), "one field many times": strings.Repeat("a:\n", long.Rounds(50_000, 299_000))} {
		began := time.Now()
		_, err := policy.Parse("x", []byte(text))
		var wrong *policy.Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 100 || wrong.More < 19_000 {
			t.Errorf("%s: %.200v", name, err)
		}
		if took := time.Since(began); took > time.Minute { // half a second on a machine with nothing else to do
			t.Errorf("%s: took %v", name, took)
		}
	}
}
