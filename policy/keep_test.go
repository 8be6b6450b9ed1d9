package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/policy"
)

func TestTheLastGoodFileIsKept(t *testing.T) {
	t.Parallel()
	options := quiet()
	options.Keep = filepath.Join(t.TempDir(), "kept.yaml")
	from := &source{}
	put := func(text string) { from.text.Store(&text) }
	begin := func(want string) *policy.Set {
		t.Helper()
		set, err := policy.From(from, options)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Status().Version.Name; got != want {
			t.Fatalf("it begins with %s, want %s", got, want)
		}
		return set
	}
	put("policies: 1")
	if _, err := policy.From(from, options); err == nil {
		t.Fatal("no error, though nothing was kept")
	}
	put(simple(1))
	set := begin("v1")
	put(simple(2))
	if err := set.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	put("policies: 1")
	set = begin("v2")
	if set.Status().Err == nil {
		t.Error("the status does not say that the file was refused")
	}
	put(simple(3))
	if err := set.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Rollback(); err != nil {
		t.Fatal(err)
	}
	put("")
	begin("v2")

	// Nobody else can read it, also where the directory is everybody's.
	if info, err := os.Stat(options.Keep); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept as %v: %v", info.Mode(), err)
	}
	write(t, options.Keep, "policies: {}")
	var wrong *policy.Error
	if _, err := policy.From(from, options); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "the version that was kept can't be used either: policy: "+options.Keep) {
		t.Errorf("neither can be used: %v", err)
	}
}
