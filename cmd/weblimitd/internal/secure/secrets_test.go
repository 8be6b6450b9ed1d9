package secure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A line that says something about the secrets is none itself: everybody who has read it could make up reservations.
func TestACommentIsNoSecret(t *testing.T) {
	t.Parallel()
	const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(text string) { must.OK(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("# made by openssl rand -hex 16, changed in November\n\n  " + first + " \n# the old one, until December 2026\n" + second + "\n")
	s := must.Get(secure.NewSecrets("", file, 32))(t)
	want := func(what string, all ...string) {
		t.Helper()
		var got []string
		for _, secret := range s.Live() {
			got = append(got, string(secret))
		}
		check.Slices(t, what, got, all)
	}
	want("the secrets", first, second)
	for what, text := range map[string]string{"a short one": first + "\nshort", "none": "# a comment that is longer than 32 bytes\n", "too many": strings.Repeat(first+"\n", 17)} {
		write(text)
		if changed, err := s.Reload(); changed || err == nil || strings.Contains(err.Error(), "short\n") || strings.Contains(err.Error(), first) {
			t.Errorf("%s: %v %v", what, changed, err)
		}
		want(what, first, second)
	}
	write(second)
	if changed, err := s.Reload(); !changed || err != nil {
		t.Errorf("%v %v", changed, err)
	}
	want("the next", second)
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("the same again: %v %v", changed, err)
	}
	if _, err := secure.NewSecrets("", "/dev/zero", 32); err == nil {
		t.Error("a file that never ends")
	}
	s = must.Get(secure.NewSecrets(first+", "+second, "", 32))(t)
	want("a variable", first, second)
}
